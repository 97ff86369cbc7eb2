package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Go's assembler does not know the instructions below, so they are written as
// bytes. TestEncodings compares them with what LLVM's assembler makes of them.

// raw writes one instruction's bytes.
func raw(ctx *build.Context, code []byte) {
	for len(code) > 0 {
		op, v, n := "BYTE", Op(U8(code[0])), 1
		switch {
		case len(code) >= 4:
			op, v, n = "LONG", U32(uint32(code[0])|uint32(code[1])<<8|uint32(code[2])<<16|uint32(code[3])<<24), 4
		case len(code) >= 2:
			op, v, n = "WORD", U16(uint16(code[0])|uint16(code[1])<<8), 2
		}
		ctx.Instruction(&ir.Instruction{Opcode: op, Operands: []Op{v}})
		code = code[n:]
	}
}

// notBit is bit i of v, inverted, as the prefixes want it.
func notBit(v uint16, i uint) byte { return byte(^v>>i) & 1 }

// vdpbf16ps adds to each 32-bit lane of d the products of the two bfloat16 of
// that lane in a and b: EVEX.512.F3.0F38.W0 52 /r.
func vdpbf16ps(b, a, d reg.VecPhysical) []byte {
	x, v, r := uint16(b.PhysicalIndex()), uint16(a.PhysicalIndex()), uint16(d.PhysicalIndex())
	return []byte{
		0x62,
		notBit(r, 3)<<7 | notBit(x, 4)<<6 | notBit(x, 3)<<5 | notBit(r, 4)<<4 | 2,
		byte(^v&15)<<3 | 4 | 2,
		0x40 | notBit(v, 4)<<3,
		0x52,
		0xc0 | byte(r&7)<<3 | byte(x&7),
	}
}

// tileMemory encodes a tile and the memory at base+index+disp, disp in 0..127.
func tileMemory(prefix byte, tile int, base, index reg.GPPhysical, disp int) []byte {
	x, b := uint16(index.PhysicalIndex()), uint16(base.PhysicalIndex())
	return []byte{
		0xc4,
		0x80 | notBit(x, 3)<<6 | notBit(b, 3)<<5 | 2,
		prefix,
		0x4b,
		0x44 | byte(tile)<<3,
		byte(x&7)<<3 | byte(b&7),
		byte(disp),
	}
}

// tileLoad reads a tile whose rows are index bytes apart: VEX.128.F2.0F38.W0 4B.
func tileLoad(tile int, base, index reg.GPPhysical, disp int) []byte {
	return tileMemory(0x7b, tile, base, index, disp)
}

// tileLoadOnce is tileLoad for what is not needed again soon: VEX.128.66.0F38.W0 4B.
func tileLoadOnce(tile int, base, index reg.GPPhysical, disp int) []byte {
	return tileMemory(0x79, tile, base, index, disp)
}

// tileStore writes a tile: VEX.128.F3.0F38.W0 4B.
func tileStore(tile int, base, index reg.GPPhysical, disp int) []byte {
	return tileMemory(0x7a, tile, base, index, disp)
}

// tileZero clears a tile: VEX.128.F2.0F38.W0 49 11:rrr:000.
func tileZero(tile int) []byte { return []byte{0xc4, 0xe2, 0x7b, 0x49, 0xc0 | byte(tile)<<3} }

// tileDot adds the product of tiles a and b, of bfloat16 pairs, to tile c:
// VEX.128.F3.0F38.W0 5C 11:rrr:bbb.
func tileDot(c, a, b int) []byte {
	return []byte{0xc4, 0xe2, byte(^b&15)<<3 | 2, 0x5c, 0xc0 | byte(c)<<3 | byte(a)}
}

// tileConfig loads the tile configuration from the address in RAX.
var tileConfig = []byte{0xc4, 0xe2, 0x78, 0x49, 0x00}

// tileRelease releases the tiles: they need not be saved any more.
var tileRelease = []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}
