package main

import (
	"bytes"
	"testing"

	"github.com/mmcloughlin/avo/reg"
)

func TestNEONEncodings(t *testing.T) {
	single, double := neon{}, neon{double: true}
	for _, c := range []struct {
		text      string
		got, want uint32
	}{
		{"fmla v16.4s, v2.4s, v0.s[0]", single.fmla(16, 2, 0, 0), 0x4f801050},
		{"fmla v31.4s, v3.4s, v1.s[3]", single.fmla(31, 3, 1, 3), 0x4fa1187f},
		{"fmla v17.4s, v15.4s, v13.s[2]", single.fmla(17, 15, 13, 2), 0x4f8d19f1},
		{"fmla v16.2d, v4.2d, v3.d[1]", double.fmla(16, 4, 3, 1), 0x4fc31890},
		{"fmla v30.2d, v5.2d, v0.d[0]", double.fmla(30, 5, 0, 0), 0x4fc010be},
		{"fadd v16.2d, v16.2d, v31.2d", double.fadd(16, 31), 0x4e7fd610},
		{"fadd v1.4s, v1.4s, v3.4s", single.fadd(1, 3), 0x4e23d421},
	} {
		if c.got != c.want {
			t.Errorf("%s: %08x, want %08x", c.text, c.got, c.want)
		}
	}
}

// The bytes wanted are what llvm-mc -show-encoding prints, with an 8-bit
// displacement where there is none.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		text      string
		got, want []byte
	}{
		{"vdpbf16ps %zmm1,%zmm2,%zmm3", vdpbf16ps(reg.Z1, reg.Z2, reg.Z3), []byte{0x62, 0xf2, 0x6e, 0x48, 0x52, 0xd9}},
		{"vdpbf16ps %zmm17,%zmm2,%zmm30", vdpbf16ps(reg.Z17, reg.Z2, reg.Z30), []byte{0x62, 0x22, 0x6e, 0x48, 0x52, 0xf1}},
		{"vdpbf16ps %zmm0,%zmm29,%zmm8", vdpbf16ps(reg.Z0, reg.Z29, reg.Z8), []byte{0x62, 0x72, 0x16, 0x40, 0x52, 0xc0}},
		{"tileloadd 64(%rax,%rbx),%tmm5", tileLoad(5, reg.RAX, reg.RBX, 64), []byte{0xc4, 0xe2, 0x7b, 0x4b, 0x6c, 0x18, 0x40}},
		{"tileloadd 64(%r8,%r9),%tmm5", tileLoad(5, reg.R8, reg.R9, 64), []byte{0xc4, 0x82, 0x7b, 0x4b, 0x6c, 0x08, 0x40}},
		{"tileloadd 0(%r13,%r11),%tmm7", tileLoad(7, reg.R13, reg.R11, 0), []byte{0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0x1d, 0x00}},
		{"tileloaddt1 64(%r8,%r9),%tmm5", tileLoadOnce(5, reg.R8, reg.R9, 64), []byte{0xc4, 0x82, 0x79, 0x4b, 0x6c, 0x08, 0x40}},
		{"tilestored %tmm3,64(%rax,%rbx)", tileStore(3, reg.RAX, reg.RBX, 64), []byte{0xc4, 0xe2, 0x7a, 0x4b, 0x5c, 0x18, 0x40}},
		{"tilezero %tmm3", tileZero(3), []byte{0xc4, 0xe2, 0x7b, 0x49, 0xd8}},
		{"tdpbf16ps %tmm6,%tmm4,%tmm1", tileDot(1, 4, 6), []byte{0xc4, 0xe2, 0x4a, 0x5c, 0xcc}},
		{"ldtilecfg (%rax)", tileConfig, []byte{0xc4, 0xe2, 0x78, 0x49, 0x00}},
		{"tilerelease", tileRelease, []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: % x, want % x", c.text, c.got, c.want)
		}
	}
}
