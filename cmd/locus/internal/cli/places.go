package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus"
)

// addVirtual does what --virtual-gpus asks for.
func addVirtual(s string) error {
	if s == "" {
		return nil
	}
	count, size, hasSize := strings.Cut(s, ":")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 64 {
		return usagef("--virtual-gpus %s: not a number of GPUs from 1 to 64, such as 2, or 2:512MiB", s)
	}
	var bytes int64
	if hasSize {
		if bytes, err = locus.ParseBytes(size); err != nil || bytes <= 0 {
			return usagef("--virtual-gpus %s: %q is not a size such as 512MiB", s, size)
		}
	}
	locus.AddVirtualGPUs(n, bytes)
	return nil
}

// parseDevices reads a list of devices such as "gpu:0,gpu:1" that must exist.
func parseDevices(flag, s string) ([]locus.Device, error) {
	var list []locus.Device
	for _, name := range strings.Split(s, ",") {
		d, err := locus.ParseDevice(name)
		if err != nil {
			return nil, usagef("--%s %s: %s", flag, s, strings.TrimPrefix(err.Error(), "locus: ParseDevice: "))
		}
		if !d.Exists() {
			return nil, noDevice("--"+flag+" "+s, d)
		}
		list = append(list, d)
	}
	return list, nil
}

// noDevice says that a device is not there, and what to do.
func noDevice(what string, d locus.Device) error {
	var names []string
	for _, i := range locus.Devices() {
		names = append(names, i.Device.String())
	}
	return usagef("%s: there is no %s; visible are %s (see locus doctor; --virtual-gpus %d adds GPUs that live in main memory)",
		what, d, strings.Join(names, ", "), d.Index()+1-locus.NumGPUs())
}

// numGPUs returns the first n GPUs.
func numGPUs(n int) ([]locus.Device, error) {
	if n < 0 {
		return nil, usagef("--gpus %d: not a number of GPUs", n)
	}
	if n > locus.NumGPUs() {
		return nil, noDevice(fmt.Sprintf("--gpus %d", n), locus.GPU(n-1))
	}
	var list []locus.Device
	for i := range n {
		list = append(list, locus.GPU(i))
	}
	return list, nil
}

// completeDevices offers the devices of this machine.
func completeDevices(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, i := range locus.Devices() {
		names = append(names, i.Device.String()+"\t"+i.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeWords offers a fixed list.
func completeWords(words ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete registers what a flag's value can be; a wrong name is a mistake here.
func complete(c *cobra.Command, flag string, f func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}
