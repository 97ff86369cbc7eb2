#include "textflag.h"

// func hasF16C() bool
TEXT ·hasF16C(SB), NOSPLIT, $0-1
	MOVL  $1, AX
	XORL  CX, CX
	CPUID
	SHRL  $29, CX
	ANDL  $1, CX
	MOVB  CX, ret+0(FP)
	RET

// func savesTiles() bool
TEXT ·savesTiles(SB), NOSPLIT, $0-1
	XORL  CX, CX
	XGETBV
	ANDL  $0x60000, AX // XCR0: tile configuration and tile data
	CMPL  AX, $0x60000
	SETEQ ret+0(FP)
	RET
