//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"
	"unsafe"

	"github.com/locusml/locus/dtype"
)

// dnnGraph is several operations that cuDNN runs in one go, described by its
// backend interface: descriptors with attributes. The first failure stays, and what
// follows it does nothing, so that only the end must be checked.
type dnnGraph struct {
	lib    *dnnLibrary
	c      *call
	failed bool
	made   []uintptr // every descriptor
	ops    []uintptr
	ids    []int64 // of the tensors that have memory, in the order in which they were made

	// What calls point to.
	object uintptr
	words  [dnnConfigs]int64
	count  int64
}

// dnnConfigs is how many ways to run a graph cuDNN may offer at most.
const dnnConfigs = 64

// cuDNN's numbers of the kinds of descriptor,
const (
	dnnPointwise   = 0
	dnnConvolution = 1
	dnnEngine      = 2
	dnnConfig      = 3
	dnnHeuristics  = 4
	dnnPlanKind    = 5
	dnnForwardOp   = 10
	dnnFilterOp    = 11
	dnnDataOp      = 12
	dnnPointwiseOp = 13
	dnnOperations  = 15
	dnnPack        = 16
	dnnTensorKind  = 17
	dnnMatMul      = 18
	dnnMatMulOp    = 19
	dnnReduction   = 21
	dnnReductionOp = 22
	dnnReshapeOp   = 31
)

// of their attributes,
const (
	attrPointMode   = 0
	attrPointType   = 1
	attrPointAxis   = 9
	attrConvType    = 100
	attrConvMode    = 101
	attrConvApart   = 102
	attrConvStride  = 103
	attrConvAfter   = 104
	attrConvBefore  = 105
	attrConvAxes    = 106
	attrHeurMode    = 200
	attrHeurOps     = 201
	attrHeurResults = 202
	attrEngine      = 300
	attrPlanHandle  = 400
	attrPlanConfig  = 401
	attrPlanMemory  = 402
	attrForward     = 700 // the first of the six that a convolution or gradient has
	attrData        = 706
	attrFilter      = 712
	attrPointDesc   = 750
	attrPointX      = 751
	attrPointB      = 752
	attrPointY      = 753
	attrPointT      = 758
	attrOpsHandle   = 800
	attrOpsList     = 801
	attrAlignment   = 900
	attrElementType = 901
	attrDims        = 902
	attrStrides     = 903
	attrID          = 906
	attrVirtual     = 907
	attrByValue     = 908
	attrPackIDs     = 1000
	attrPackAddrs   = 1001
	attrPackMemory  = 1003
	attrEngineID    = 1301
	attrNumbers     = 1303
	attrBehavior    = 1305
	attrMatMulType  = 1500
	attrMatMulA     = 1520
	attrMatMulB     = 1521
	attrMatMulC     = 1522
	attrMatMulDesc  = 1523
	attrReduceMode  = 1600
	attrReduceType  = 1601
	attrReduceX     = 1610
	attrReduceY     = 1611
	attrReduceDesc  = 1612
	attrReshapeX    = 2200
	attrReshapeY    = 2201
)

// of the types and of some values of attributes.
const (
	typeHandle     = 0
	typeElement    = 1
	typeBool       = 2
	typeInt64      = 3
	typeFloat      = 4
	typeDouble     = 5
	typePointer    = 6
	typeConvMode   = 7
	typeHeurMode   = 8
	typeNumbers    = 11
	typePointMode  = 14
	typeDescriptor = 15
	typeReduceMode = 18
	typeBehavior   = 19
	heurModeA      = 3
	dnnInt32       = 4
	dnnBool        = 11
)

// The operations that attention is made of.
const (
	pointAdd, pointMul, pointSub, pointDiv = 0, 1, 9, 6
	pointExp, pointLog, pointSame          = 13, 15, 21
	pointGE, pointIndex, pointSelect       = 303, 501, 601
	reduceAdd, reduceMax                   = 0, 3
)

func newDNNGraph(lib *dnnLibrary, c *call) *dnnGraph { return &dnnGraph{lib: lib, c: c} }

// try calls a function unless something has failed.
func (g *dnnGraph) try(fn uintptr, args ...uintptr) bool {
	if !g.failed {
		g.c.fn = fn
		copy(g.c.a[:], args)
		g.failed = int32(g.c.do()) != 0
	}
	return !g.failed
}

// create makes a descriptor, which finish completes.
func (g *dnnGraph) create(kind uintptr) uintptr {
	if !g.try(g.lib.graph.create, kind, uintptr(unsafe.Pointer(&g.object))) {
		return 0
	}
	g.made = append(g.made, g.object)
	return g.object
}

func (g *dnnGraph) finish(desc uintptr) uintptr {
	g.try(g.lib.graph.finish, desc)
	return desc
}

// set sets an attribute to integers, of which cuDNN reads as many bytes as the type has.
func (g *dnnGraph) set(desc, attr, typ uintptr, values ...int64) {
	n := copy(g.words[:], values)
	g.try(g.lib.graph.set, desc, attr, typ, uintptr(n), uintptr(unsafe.Pointer(&g.words)))
}

// setDesc sets an attribute to descriptors.
func (g *dnnGraph) setDesc(desc, attr uintptr, to ...uintptr) {
	for i, d := range to {
		g.words[i] = int64(d)
	}
	g.try(g.lib.graph.set, desc, attr, typeDescriptor, uintptr(len(to)), uintptr(unsafe.Pointer(&g.words)))
}

// fetch reads an attribute of up to most values into words and returns their number.
func (g *dnnGraph) fetch(desc, attr, typ uintptr, most int) int {
	g.count = 0
	g.try(g.lib.graph.get, desc, attr, typ, uintptr(most), uintptr(unsafe.Pointer(&g.count)), uintptr(unsafe.Pointer(&g.words)))
	return min(int(g.count), most)
}

// dnnTensor is a tensor of a graph.
type dnnTensor struct {
	desc  uintptr
	shape [4]int64
}

func (g *dnnGraph) describe(id, typ int64, m matrices4, mark uintptr) dnnTensor {
	t := dnnTensor{g.create(dnnTensorKind), m.shape}
	g.set(t.desc, attrID, typeInt64, id)
	g.set(t.desc, attrElementType, typeElement, typ)
	g.set(t.desc, attrAlignment, typeInt64, 16)
	g.set(t.desc, attrDims, typeInt64, m.shape[:]...)
	g.set(t.desc, attrStrides, typeInt64, m.strides[:]...)
	if mark != 0 {
		g.set(t.desc, mark, typeBool, 1)
	}
	g.finish(t.desc)
	return t
}

// given is a tensor in memory, whose address comes with the call.
func (g *dnnGraph) given(t dtype.DType, m matrices4) dnnTensor {
	g.ids = append(g.ids, int64(len(g.ids)+1))
	return g.describe(g.ids[len(g.ids)-1], int64(dnnTypes[t]), m, 0)
}

// scalar is a float32 that is read from main memory during the call.
func (g *dnnGraph) scalar() dnnTensor {
	g.ids = append(g.ids, int64(len(g.ids)+1))
	return g.describe(g.ids[len(g.ids)-1], int64(dnnTypes[dtype.Float32]), inOrder([4]int64{1, 1, 1, 1}), attrByValue)
}

// virtual is a tensor that exists only between two operations; between is a virtual
// tensor of float32 in order.
func (g *dnnGraph) virtual(t dtype.DType, m matrices4) dnnTensor {
	return g.describe(g.next(), int64(dnnTypes[t]), m, attrVirtual)
}

func (g *dnnGraph) between(shape [4]int64) dnnTensor { return g.virtual(dtype.Float32, inOrder(shape)) }

// next is a number for a tensor without memory.
func (g *dnnGraph) next() int64 { return int64(1000 + len(g.made)) }

// pointwise applies an operation element by element.
func (g *dnnGraph) pointwise(mode int64, to dnnTensor, from ...dnnTensor) dnnTensor {
	return g.point(mode, int64(dnnTypes[dtype.Float32]), to, -1, from...)
}

// each is pointwise with a result between operations, of the first operand's shape.
func (g *dnnGraph) each(mode int64, from ...dnnTensor) dnnTensor {
	return g.pointwise(mode, g.between(from[0].shape), from...)
}

// index returns the position of each element along an axis, and compare a truth value.
func (g *dnnGraph) index(axis int64, like dnnTensor) dnnTensor {
	to := g.describe(g.next(), dnnInt32, inOrder(like.shape), attrVirtual)
	return g.point(pointIndex, int64(dnnTypes[dtype.Float32]), to, axis, like)
}

func (g *dnnGraph) compare(mode int64, a, b dnnTensor) dnnTensor {
	return g.point(mode, dnnBool, g.describe(g.next(), dnnBool, inOrder(a.shape), attrVirtual), -1, a, b)
}

func (g *dnnGraph) point(mode, compute int64, to dnnTensor, axis int64, from ...dnnTensor) dnnTensor {
	p := g.create(dnnPointwise)
	g.set(p, attrPointMode, typePointMode, mode)
	g.set(p, attrPointType, typeElement, compute)
	if axis >= 0 {
		g.set(p, attrPointAxis, typeInt64, axis)
	}
	g.finish(p)
	o := g.create(dnnPointwiseOp)
	g.setDesc(o, attrPointDesc, p)
	for i, t := range from {
		g.setDesc(o, [...]uintptr{attrPointX, attrPointB, attrPointT}[i], t.desc)
	}
	g.setDesc(o, attrPointY, to.desc)
	g.add(o)
	return to
}

// add makes a described operation part of the graph.
func (g *dnnGraph) add(o uintptr) { g.ops = append(g.ops, g.finish(o)) }

func (g *dnnGraph) matmul(a, b, to dnnTensor) dnnTensor {
	m := g.create(dnnMatMul)
	g.set(m, attrMatMulType, typeElement, int64(dnnTypes[dtype.Float32]))
	g.finish(m)
	o := g.create(dnnMatMulOp)
	g.setDesc(o, attrMatMulDesc, m)
	g.setDesc(o, attrMatMulA, a.desc)
	g.setDesc(o, attrMatMulB, b.desc)
	g.setDesc(o, attrMatMulC, to.desc)
	g.add(o)
	return to
}

// reduce reduces the axes along which to has size 1.
func (g *dnnGraph) reduce(mode int64, from, to dnnTensor) dnnTensor {
	r := g.create(dnnReduction)
	g.set(r, attrReduceMode, typeReduceMode, mode)
	g.set(r, attrReduceType, typeElement, int64(dnnTypes[dtype.Float32]))
	g.finish(r)
	o := g.create(dnnReductionOp)
	g.setDesc(o, attrReduceDesc, r)
	g.setDesc(o, attrReduceX, from.desc)
	g.setDesc(o, attrReduceY, to.desc)
	g.add(o)
	return to
}

// reshape returns the same elements with another shape and other strides.
func (g *dnnGraph) reshape(from dnnTensor, t dtype.DType, m matrices4) dnnTensor {
	to := g.virtual(t, m)
	o := g.create(dnnReshapeOp)
	g.setDesc(o, attrReshapeX, from.desc)
	g.setDesc(o, attrReshapeY, to.desc)
	g.add(o)
	return to
}

// dnnPlan is one way in which cuDNN runs a graph.
type dnnPlan struct {
	desc   uintptr
	memory int64 // bytes of working memory
}

// configs asks for up to most ways to run the graph on the card of a handle, what
// cuDNN thinks fastest first.
func (g *dnnGraph) configs(handle uintptr, most int) []uintptr {
	o := g.create(dnnOperations)
	g.set(o, attrOpsHandle, typeHandle, int64(handle))
	g.setDesc(o, attrOpsList, g.ops...)
	g.finish(o)
	h := g.create(dnnHeuristics)
	g.setDesc(h, attrHeurOps, o)
	g.set(h, attrHeurMode, typeHeurMode, heurModeA)
	g.finish(h)
	found := make([]uintptr, most)
	for i := range found {
		found[i] = g.create(dnnConfig)
	}
	for i, c := range found { // cuDNN fills in the descriptors that it is given
		g.words[i] = int64(c)
	}
	n := g.fetch(h, attrHeurResults, typeDescriptor, most)
	for _, c := range found[n:] {
		g.drop(c)
	}
	return found[:n]
}

// build makes a plan of one of the configs, which need not succeed.
func (g *dnnGraph) build(handle, config uintptr) (p dnnPlan, ok bool) {
	p.desc = g.create(dnnPlanKind)
	g.set(p.desc, attrPlanHandle, typeHandle, int64(handle))
	g.setDesc(p.desc, attrPlanConfig, config)
	g.finish(p.desc)
	ok = g.fetch(p.desc, attrPlanMemory, typeInt64, 1) == 1 && !g.failed
	p.memory = g.words[0]
	g.failed = false // another one may do
	if !ok {
		g.drop(p.desc)
	}
	return p, ok
}

// plan returns the way to run the graph on the card of a handle that cuDNN thinks
// fastest of those that it can build.
func (g *dnnGraph) plan(handle uintptr) (p dnnPlan, ok bool) {
	for _, c := range g.configs(handle, 8) {
		if p, ok = g.build(handle, c); ok {
			return p, true
		}
	}
	return dnnPlan{}, false
}

// dnnEngineInfo is what cuDNN says of the way in which a config computes: its number
// among the engines for the operation, and notes, as two sets of cuDNN's numbers.
type dnnEngineInfo struct {
	id                int64
	numbers, behavior uint32
}

// engine describes the engine of a config.
func (g *dnnGraph) engine(config uintptr) (e dnnEngineInfo, ok bool) {
	desc := g.create(dnnEngine)
	g.words[0] = int64(desc)
	ok = g.fetch(config, attrEngine, typeDescriptor, 1) == 1 && g.fetch(desc, attrEngineID, typeInt64, 1) == 1
	e.id = g.words[0]
	notes := func(attr, typ uintptr) (all uint32) {
		const most = 16
		for _, note := range (*[most]int32)(unsafe.Pointer(&g.words))[:g.fetch(desc, attr, typ, most)] {
			all |= 1 << note
		}
		return all
	}
	e.numbers, e.behavior = notes(attrNumbers, typeNumbers), notes(attrBehavior, typeBehavior)
	ok = ok && !g.failed
	g.failed = false // another one may do
	g.drop(desc)
	return e, ok
}

// drop destroys a descriptor.
func (g *dnnGraph) drop(desc uintptr) {
	i := slices.Index(g.made, desc)
	if i < 0 {
		return // it was never made
	}
	g.made = slices.Delete(g.made, i, i+1)
	failed := g.failed
	g.failed = false
	g.try(g.lib.graph.destroy, desc)
	g.failed = failed
}

// forget destroys everything the graph was described with.
func (g *dnnGraph) forget() {
	g.failed = false
	for _, d := range g.made {
		g.try(g.lib.graph.destroy, d)
	}
	g.made, g.ops = nil, nil
}

// execute queues a plan on the stream of the handle: addrs points to the addresses of
// the tensors in memory, in the order in which they were described.
func (g *dnnGraph) execute(handle, plan uintptr, addrs *uintptr, work uintptr) bool {
	g.failed = false
	pack := g.create(dnnPack)
	n := uintptr(len(g.ids))
	g.try(g.lib.graph.set, pack, attrPackIDs, typeInt64, n, uintptr(unsafe.Pointer(&g.ids[0])))
	g.try(g.lib.graph.set, pack, attrPackAddrs, typePointer, n, uintptr(unsafe.Pointer(addrs)))
	g.set(pack, attrPackMemory, typePointer, int64(work))
	g.finish(pack)
	ok := g.try(g.lib.graph.execute, handle, plan, pack)
	if pack != 0 {
		g.failed = false
		g.try(g.lib.graph.destroy, pack)
		g.made = g.made[:len(g.made)-1]
	}
	return ok
}
