// Command scaling prints what a cost model says of training on 8 to 1,024 GPUs; docs/scaling.md
// explains it and compares it with what was measured and published.
//
//	go run ./bench/scaling
package main

import "fmt"

// The figures of links are what collectives reach, not what the cables could: 8 GPUs of a server
// with NVLink reduce at 460 to 480 GB/s of bus bandwidth (nccl-tests), of which a model of rings
// counts what one GPU sends. Between servers there is a 400 Gbit/s adapter per GPU, at nine tenths.
var clusters = []cluster{
	{"8 × H200 per server, NVLink, 400 Gbit/s per GPU", 8, link{460e9, 3e-6}, link{45e9, 8e-6}},
	{"8 × H200 per server, NVLink, 100 Gbit/s per server", 8, link{460e9, 3e-6}, link{12.5e9 * .9 / 8, 20e-6}},
	{"1 GPU per server, 25 Gbit/s", 1, link{1, 0}, link{3.1e9 * .9, 30e-6}},
}

// Steps of one H200, measured (bench/RESULTS.md); gradients are float32, as the trainer reduces
// them. The update is what AdamW or SGD moves at 4 TB/s.
var works = []work{
	{"ResNet-18, 128×3×96², TF32", 5.31e-3, .03e-3, 44.7e6},
	{"transformer, 6 layers, TF32", 3.16e-3, .14e-3, 77.7e6},
	{"GPT-2 124M, 8×1024, bfloat16", 18.9e-3, .9e-3, 497.8e6},
	{"ViT-small, batch 64, bfloat16", 10.3e-3, .16e-3, 88.2e6},
}

// published are runs that others have described: Horovod's README (128 servers with four P100 and
// one adapter of 25 Gbit/s each). A step alone is a batch of 64 at the images per second of one
// P100 in TensorFlow's benchmarks of that time.
var published = []struct {
	work
	cluster
	gpus int
	seen float64
}{
	{work{"Inception V3, 142 images/s alone", 64 / 142., .005, 95e6}, pascal, 512, .90},
	{work{"VGG-16, 154 images/s alone", 64 / 154., .02, 553e6}, pascal, 512, .68},
}

var pascal = cluster{"", 4, link{10e9, 10e-6}, link{25e9 / 8 / 4 * .9, 20e-6}}

func main() {
	sizes := []int{2, 8, 16, 64, 256, 1024}
	for _, c := range clusters {
		fmt.Printf("\n%s\n\n| step |", c.name)
		for _, n := range sizes {
			fmt.Printf(" %d |", n)
		}
		fmt.Print("\n|---|")
		for range sizes {
			fmt.Print("---|")
		}
		fmt.Println()
		for _, w := range works {
			fmt.Printf("| %s |", w.name)
			for _, n := range sizes {
				fmt.Printf(" %.2f |", w.efficiency(c, n))
			}
			fmt.Println()
		}
	}
	fmt.Print("\n| published | GPUs | seen | model |\n|---|---|---|---|\n")
	for _, p := range published {
		fmt.Printf("| %s | %d | %.2f | %.2f |\n", p.work.name, p.gpus, p.seen, p.efficiency(p.cluster, p.gpus))
	}
}
