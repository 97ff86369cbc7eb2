package gate_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train/metric"
)

// TestTemplates makes sure that the templates work, and that each is of an exported
// function.
func TestTemplates(t *testing.T) {
	all := map[string]callee{}
	for _, c := range callees() {
		all[c.name] = c
	}
	for name, values := range templates() {
		c, ok := all[name]
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		fn := c.fn
		if c.recv != nil {
			fn = reflect.ValueOf(values[0])
			if c.method != "" {
				fn = fn.MethodByName(c.method)
			}
			values = values[1:]
		}
		var args []argument
		for _, v := range values {
			args = append(args, argument{reflect.ValueOf(v), ""})
		}
		if err := locus.Try(func() { call(fn, args) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counted is a meter with a batch.
func counted() *metric.Meter {
	m := metric.NewMeter(metric.AUC(16), metric.As("exact_", metric.ExactAUC()))
	m.Add(locus.Rand(4, 1), locus.From([]int{0, 1, 1, 0}))
	return m
}

// templates are calls that work, a method's receiver first, of functions whose
// operands must fit together: garbage in one place of them gets further than
// garbage in all.
func templates() map[string][]any {
	f := func(shape ...int) *locus.Tensor { return locus.Rand(shape...) }
	ids := func(n ...int64) *locus.Tensor { return locus.From(n) }
	bools := f(2, 3).Gt(0.5)
	grad := f(2, 3).RequireGrad()
	var none *locus.Tensor
	sum := func(a ...*locus.Tensor) *locus.Tensor {
		if len(a) == 0 {
			return nil
		}
		return a[0].Mul(a[0]).Sum()
	}
	dataset, err := data.NewTensorDataset(f(6, 3), f(6, 1))
	if err != nil {
		panic(err)
	}
	loader, err := data.NewLoader(dataset, data.Options{BatchSize: 2})
	if err != nil {
		panic(err)
	}
	images := []*locus.Tensor{f(2, 3, 4, 4), ids(0, 1)}
	attention := nn.MultiHeadAttention(4, 2, nn.MultiHeadOptions{})
	recurrent := nn.LSTM(3, 2, nn.RecurrentOptions{Layers: 2, Bidirectional: true})
	return map[string][]any{
		"metric.Meter.Add":                  {metric.NewMeter(metric.Accuracy(), metric.TopK(2), metric.F1(3, metric.Macro), metric.ConfusionMatrix(3), metric.Perplexity(nil)), f(2, 3), ids(0, 2)},
		"metric.Read":                       {[]*metric.Meter{counted()}},
		"locus.AdaptiveAvgPool2D":           {f(1, 2, 5, 5), locus.Pair(3)},
		"locus.AdaptiveMaxPool1D":           {f(1, 2, 5), 3},
		"locus.Attention":                   {f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), locus.AttentionOptions{}},
		"locus.AvgPool1D":                   {f(1, 2, 5), 2, locus.PoolOptions{}},
		"locus.AvgPool2D":                   {f(1, 2, 5, 5), locus.Pair(2), locus.PoolOptions{Ceil: true}},
		"locus.CTCLoss":                     {f(5, 2, 4), ids(1, 2, 3, 3, 2, 1).Reshape(2, 3), ids(5, 4), ids(1, 2), locus.CTCOptions{}},
		"locus.GridSample":                  {f(1, 2, 4, 5), f(1, 3, 3, 2), locus.GridSampleOptions{Padding: locus.GridReflect}},
		"locus.AffineGrid":                  {f(1, 2, 3), true, []int{4, 5}},
		"locus.AdaptiveAvgPool3D":           {f(1, 2, 4, 5, 5), locus.Triple(3)},
		"locus.AdaptiveMaxPool3D":           {f(1, 2, 4, 5, 5), locus.DHW(3, 2, 2)},
		"locus.AvgPool3D":                   {f(1, 2, 4, 5, 5), locus.Triple(2), locus.Pool3DOptions{Ceil: true}},
		"locus.MaxPool3D":                   {f(1, 2, 4, 5, 5), locus.DHW(1, 2, 2), locus.Pool3DOptions{}},
		"locus.MaxPool3DWithPositions":      {f(1, 2, 4, 5, 5), locus.Triple(2), locus.Pool3DOptions{}},
		"locus.Conv3D":                      {f(1, 2, 4, 4, 4), f(4, 2, 3, 2, 3), f(4), locus.Conv3DOptions{Padding: locus.Same}, []locus.Activation{}},
		"locus.ConvTranspose3D":             {f(1, 2, 3, 3, 3), f(2, 4, 3, 2, 3), f(4), locus.ConvTranspose3DOptions{Stride: 2}},
		"nn.Conv3DLayer.Forward":            {nn.Conv3D(2, 3, 3, locus.Conv3DOptions{}), f(1, 2, 3, 4, 5)},
		"nn.ConvTranspose3DLayer.Forward":   {nn.LazyConvTranspose3D(3, 3, locus.ConvTranspose3DOptions{}), f(1, 2, 3, 3, 3)},
		"nn.Conv3D":                         {2, 4, locus.Triple(3), locus.Conv3DOptions{Groups: 2}, []nn.Option{}},
		"locus.MaxPool2D":                   {f(1, 2, 5, 5), locus.Pair(2), locus.PoolOptions{}},
		"locus.BCELoss":                     {f(2, 3), f(2, 3), locus.BCEOptions{}},
		"locus.BCEWithLogits":               {f(2, 3), f(2, 3), locus.BCEOptions{}},
		"locus.BatchNorm":                   {f(3, 2), f(2), f(2), 1e-5},
		"locus.BatchNormRunning":            {f(3, 2), f(2), f(2), f(2), f(2), 0.1, 1e-5},
		"locus.BatchNormWith":               {f(3, 2), f(2), f(2), f(2), f(2), 1e-5},
		"locus.Bilinear":                    {f(2, 3), f(2, 4), f(5, 3, 4), f(5)},
		"locus.Checkpoint":                  {sum, []*locus.Tensor{grad}},
		"locus.Concat":                      {0, []*locus.Tensor{f(2, 3), f(1, 3)}},
		"locus.Conv1D":                      {f(1, 2, 6), f(4, 1, 3), f(4), locus.ConvOptions{Groups: 2}, []locus.Activation{locus.ReluActivation}},
		"locus.Conv2D":                      {f(1, 2, 6, 6), f(4, 2, 3, 3), f(4), locus.ConvOptions{Padding: locus.Same}, []locus.Activation{}},
		"locus.ConvTranspose1D":             {f(1, 2, 4), f(2, 3, 3), none, locus.ConvTransposeOptions{}},
		"locus.ConvTranspose2D":             {f(1, 2, 4, 4), f(2, 3, 3, 3), f(3), locus.ConvTransposeOptions{Stride: 2}},
		"locus.CopyToSlice[float32]":        {make([]float32, 6), f(2, 3)},
		"locus.CosineEmbedding":             {f(2, 3), f(2, 3), f(2).OnesLike(), 0.1, locus.ReduceMean},
		"locus.CosineSimilarity":            {f(2, 3), f(2, 3), 1, 1e-8},
		"locus.CrossEntropy":                {f(2, 3), ids(0, 2), locus.CrossEntropyOptions{}},
		"locus.Custom":                      {"mine", sum, func(a []*locus.Tensor, y, g *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{y} }, []*locus.Tensor{grad}},
		"locus.Einsum":                      {"ij,jk->ik", []*locus.Tensor{f(2, 3), f(3, 4)}},
		"locus.Embedding":                   {f(5, 2), ids(0, 4), []int{1}},
		"locus.Fold":                        {f(1, 8, 4), locus.Pair(3), locus.Pair(2), locus.WindowOptions{}},
		"locus.Unfold":                      {f(1, 2, 3, 3), locus.Pair(2), locus.WindowOptions{}},
		"locus.GRUCell":                     {f(2, 3), f(2, 4), locus.CellWeights{Input: f(12, 3), Hidden: f(12, 4)}},
		"locus.LSTMCell":                    {f(2, 3), f(2, 4), f(2, 4), locus.CellWeights{Input: f(16, 3), Hidden: f(16, 4)}},
		"locus.RNNCell":                     {f(2, 3), f(2, 4), locus.CellWeights{Input: f(4, 3), Hidden: f(4, 4)}, (*locus.Tensor).Tanh},
		"locus.GaussianNLL":                 {f(2, 3), f(2, 3), f(2, 3), 1e-3, locus.ReduceSum},
		"locus.Grad":                        {[]*locus.Tensor{grad.Mul(2).Sum()}, []*locus.Tensor{grad}, []locus.GradOption{locus.RetainGraph}},
		"locus.GroupNorm":                   {f(2, 4, 3), 2, f(4), f(4), 1e-5},
		"locus.HingeEmbedding":              {f(2, 3), f(2, 3), 1.0, locus.ReduceMean},
		"locus.HuberLoss":                   {f(2, 3), f(2, 3), 1.0, locus.ReduceMean},
		"locus.InstanceNorm":                {f(2, 4, 3), f(4), f(4), 1e-5},
		"locus.Interpolate":                 {f(1, 2, 3, 3), locus.Pair(5), locus.InterpolateBilinear},
		"locus.JVP":                         {sum, []*locus.Tensor{f(2, 3)}, []*locus.Tensor{f(2, 3)}},
		"locus.KLDiv":                       {f(2, 3), f(2, 3), locus.ReduceBatchMean},
		"locus.LayerNorm":                   {f(2, 3), []int{3}, f(3), f(3), 1e-5},
		"locus.Linear":                      {f(2, 3), f(4, 3), f(4), []locus.Activation{locus.GeluActivation}},
		"locus.LocalResponseNorm":           {f(2, 4, 3), 3, 1e-4, 0.75, 1.0},
		"locus.MSELoss":                     {f(2, 3), f(2, 3), locus.ReduceMean},
		"locus.MarginRanking":               {f(2), f(2), f(2), 0.1, locus.ReduceMean},
		"locus.Meshgrid":                    {[]*locus.Tensor{f(2), f(3)}},
		"locus.NLLLoss":                     {f(2, 3), ids(0, 2), locus.NLLOptions{}},
		"locus.PixelShuffle":                {f(1, 4, 3, 3), 2},
		"locus.PixelUnshuffle":              {f(1, 2, 4, 4), 2},
		"locus.PairwiseDistance":            {f(2, 3), f(2, 3), 2.0, 1e-6},
		"locus.RMSNorm":                     {f(2, 3), []int{3}, f(3), 1e-5},
		"locus.ScaleAll":                    {[]*locus.Tensor{f(2, 3), f(4)}, f()},
		"locus.CastAll":                     {[]*locus.Tensor{f(2, 3), f(4)}, locus.BFloat16},
		"locus.Unscale":                     {[]*locus.Tensor{f(2, 3), f(4)}, f()},
		"locus.AverageAll":                  {[]*locus.Tensor{f(2, 3), f(4)}, []*locus.Tensor{f(2, 3), f(4)}, 0.9},
		"locus.UpdateAll":                   {locus.Update{Rule: locus.UpdateAdam}, []locus.Updating{{Value: f(2, 3), Grad: f(2, 3)}}, none, none},
		"locus.SegmentMean":                 {f(3, 2), ids(0, 1, 1), 2},
		"locus.SegmentSum":                  {f(3, 2), ids(0, 1, 1), 2},
		"locus.Stack":                       {0, []*locus.Tensor{f(2, 3), f(2, 3)}},
		"locus.TripletMargin":               {f(2, 3), f(2, 3), f(2, 3), 1.0, 2.0, locus.ReduceMean},
		"locus.VJP":                         {sum, []*locus.Tensor{f(2, 3)}},
		"locus.Where":                       {bools, f(2, 3), 1.0},
		"locus.WithSlice[float32]":          {f(2, 3), func([]float32) {}},
		"locus.Tensor.AdamStep":             {f(2, 3), f(2, 3), f(2, 3), 0.9, 0.1, 1.0, 1e-8},
		"locus.Tensor.Add":                  {f(2, 3), f(3)},
		"locus.Tensor.And":                  {bools, bools},
		"locus.Tensor.Backward":             {grad.Mul(2).Sum(), []locus.GradOption{locus.RetainGraph}},
		"locus.Tensor.Blend":                {f(2, 3), 0.5, f(2, 3), 0.5},
		"locus.Tensor.Clamp":                {f(2, 3), 0.1, 0.9},
		"locus.Tensor.Cross":                {f(2, 3), f(2, 3), 1},
		"locus.Tensor.Diagonal":             {f(2, 3), 0, 0, 1},
		"locus.Tensor.Expand":               {f(1, 3), []int{2, 3}},
		"locus.Tensor.Gather":               {f(2, 3), 1, locus.From([]int64{0, 2}, 2, 1)},
		"locus.Tensor.IndexAdd":             {f(2, 3), 0, ids(0), f(1, 3)},
		"locus.Tensor.Int":                  {ids(3)},
		"locus.Tensor.Kron":                 {f(2, 3), f(3, 2)},
		"locus.Tensor.Lerp":                 {f(2, 3), f(2, 3), 0.5},
		"locus.Tensor.MatMul":               {f(2, 3), f(3, 2)},
		"locus.Tensor.Narrow":               {f(4, 3), 0, 1, 3},
		"locus.Tensor.Outer":                {f(2), f(3)},
		"locus.Tensor.PRelu":                {f(2, 3), f(3)},
		"locus.Tensor.Pad":                  {f(2, 3), 0.0, []int{1, 1, -1, 2}},
		"locus.Tensor.PadWith":              {f(3, 3), locus.PadReflect, []int{1, 1, 2, 0}},
		"locus.Tensor.Permute":              {f(2, 3), []int{1, 0}},
		"locus.Tensor.Repeat":               {f(1, 1, 1, 2, 3), []int{1, 2, 1, 1, 2}},
		"locus.Tensor.Reshape":              {f(2, 3), []int{3, -1}},
		"locus.Tensor.ScatterAdd":           {f(2, 3), 1, locus.From([]int64{0, 2}, 2, 1), f(2, 1)},
		"locus.Tensor.Slice":                {f(4, 3), []locus.Range{locus.R(0, 3, 2), locus.At(1)}},
		"locus.Tensor.Take":                 {f(4, 3), 0, ids(3, 0)},
		"locus.Tensor.TopK":                 {f(2, 3), 2, 1},
		"locus.Tensor.Where":                {bools, f(2, 3), f(2, 3)},
		"nn.BatchNormLayer.Forward":         {nn.BatchNorm(4), f(2, 4, 3)},
		"nn.BilinearLayer.Forward":          {nn.Bilinear(3, 4, 2), f(2, 3), f(2, 4)},
		"nn.ConvLayer.Forward":              {nn.Conv2D(2, 3, 3, locus.ConvOptions{}), f(1, 2, 5, 5)},
		"nn.ConvTransposeLayer.Forward":     {nn.LazyConvTranspose1D(3, 3, locus.ConvTransposeOptions{}), f(1, 2, 5)},
		"nn.DecoderLayer.Decode":            {nn.TransformerDecoderLayer(4, 2, nn.TransformerOptions{Hidden: 4}), f(1, 3, 4), f(1, 2, 4), none, none},
		"nn.EncoderLayer.Encode":            {nn.TransformerEncoderLayer(4, 2, nn.TransformerOptions{Hidden: 4}), f(1, 3, 4), none},
		"nn.EmbeddingLayer.Forward":         {nn.Embedding(5, 2), ids(4, 0)},
		"nn.LearnedPositionsLayer.Forward":  {nn.LearnedPositions(5, 4), f(1, 3, 4)},
		"nn.MultiHeadAttention":             {4, 2, nn.MultiHeadOptions{}, []nn.Option{}},
		"nn.MultiHeadAttentionLayer.Attend": {attention, f(1, 3, 4), f(1, 5, 4), f(1, 5, 4), none},
		"nn.RecurrentLayer.Run":             {recurrent, f(2, 5, 3), nn.RecurrentState{}},
		"nn.ResNetBlockLayer.Forward":       {nn.ResNetBlock(2, 3, 2), f(2, 2, 5, 5)},
		"nn.RotaryLayer.Forward":            {nn.Rotary(4, 0), f(1, 3, 4)},
		"nn.SinusoidalLayer.Forward":        {nn.Sinusoidal(4, 0.1), f(1, 3, 4)},
		"nn.TransformerDecoder":             {2, 4, 2, nn.TransformerOptions{Hidden: 4, FinalNorm: true}, []nn.Option{}},
		"nn.TransformerEncoder":             {2, 4, 2, nn.TransformerOptions{Hidden: 4, FinalNorm: true}, []nn.Option{}},
		"nn.LSTM":                           {3, 2, nn.RecurrentOptions{Layers: 2}, []nn.Option{}},
		"nn.Conv2D":                         {2, 4, locus.Pair(3), locus.ConvOptions{Groups: 2}, []nn.Option{}},
		"nn.PaddingMask":                    {ids(2, 3), 3},
		"nn.Apply":                          {nn.Linear(3, 2), nn.TreeOf(nn.Linear(3, 2)), f(2, 3)},
		"data.NewLoader":                    {dataset, data.Options{BatchSize: 2, Workers: 2}},
		"data.Loader.Order":                 {loader, 1},
		"data.Split":                        {dataset, locus.NewKey(1), []int{2, -1}},
		"data.Subset":                       {dataset, []int{0, 5}},
		"data.TensorDataset.Batch":          {dataset, []int{0, 5}, locus.NewKey(1)},
		"data.NewTensorDataset":             {[]*locus.Tensor{f(3, 2), f(3)}},
		"data.NewClassified":                {f(2, 3), ids(0, 1), []string{"a", "b"}},
		"data.ParseCSV":                     {bytes.NewReader([]byte("a,b\n1,2\n3,x\n")), data.CSVOptions{}},
		"data.NewSequentialSequences":       {[]int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 2, 2},
		"data.SyntheticRegression":          {locus.NewKey(1), 5, []float32{1, 2}, 1.0, 0.1},
		"data.Normalize":                    {[]float32{1, 2, 3}, []float32{1, 1, 1}},
		"data.Transform":                    {data.RandomCrop(1), images, locus.NewKey(1)},
	}
}
