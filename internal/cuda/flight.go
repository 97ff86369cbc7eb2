//go:build linux && (amd64 || arm64) && !nocuda

package cuda

// flight is host memory that the device reads until it has passed an event.
type flight struct {
	event   *event
	release func()
}

// releaseAfter calls release when the device has passed e. A goroutine that
// exists only while there is something to wait for does so.
func (d *Device) releaseAfter(e *event, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flights = append(d.flights, flight{e, release})
	if !d.landing {
		d.landing = true
		go d.land()
	}
}

func (d *Device) land() {
	for {
		d.mu.Lock()
		if len(d.flights) == 0 {
			d.flights, d.landing = nil, false
			d.mu.Unlock()
			return
		}
		f := d.flights[0]
		d.flights[0] = flight{}
		d.flights = d.flights[1:]
		d.mu.Unlock()
		f.event.Wait()
		f.release()
	}
}
