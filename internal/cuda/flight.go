//go:build linux && (amd64 || arm64) && !nocuda

package cuda

// flight is host memory that the device reads until it has passed an event.
type flight struct {
	event   *event
	release func()
}

// pendingFlights are the flights that have not landed, in the order in which they
// will. Guarded by the device's mu.
type pendingFlights struct {
	list    []flight
	awaited bool // a goroutine waits for them
}

// releaseAfter calls release when the device has passed e. A goroutine that
// exists only while there is something to wait for does so.
func (d *Device) releaseAfter(e *event, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flights.list = append(d.flights.list, flight{e, release})
	if !d.flights.awaited {
		d.flights.awaited = true
		go d.land()
	}
}

func (d *Device) land() {
	for {
		d.mu.Lock()
		if len(d.flights.list) == 0 {
			d.flights.list, d.flights.awaited = nil, false
			d.mu.Unlock()
			return
		}
		f := d.flights.list[0]
		d.flights.list[0] = flight{}
		d.flights.list = d.flights.list[1:]
		d.mu.Unlock()
		f.event.Wait()
		f.release()
	}
}
