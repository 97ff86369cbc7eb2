package train

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// numbers are metrics by name as JSON, which has no word for NaN and the
// infinities: they are strings there.
type numbers map[string]float64

func (n numbers) MarshalJSON() ([]byte, error) {
	if n == nil {
		return []byte("null"), nil
	}
	m := make(map[string]any, len(n))
	for k, v := range n {
		m[k] = v
		if math.IsNaN(v) || math.IsInf(v, 0) {
			m[k] = fmt.Sprint(v)
		}
	}
	return json.Marshal(m)
}

func (n *numbers) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil || m == nil {
		return err
	}
	*n = make(numbers, len(m))
	for k, raw := range m {
		var v float64
		var s string
		err := json.Unmarshal(raw, &v)
		if err != nil && json.Unmarshal(raw, &s) == nil {
			v, err = strconv.ParseFloat(s, 64)
		}
		if err != nil {
			return fmt.Errorf("train: the metric %q is %s: %w", k, raw, err)
		}
		(*n)[k] = v
	}
	return nil
}

// epochFields are an Epoch's without its methods.
type epochFields Epoch

// epochJSON is an Epoch with metrics that JSON can hold.
type epochJSON struct {
	*epochFields
	Train, Validation *numbers
}

// MarshalJSON returns the record; metrics that are not finite numbers are strings.
func (e Epoch) MarshalJSON() ([]byte, error) {
	return json.Marshal(epochJSON{(*epochFields)(&e), (*numbers)(&e.Train), (*numbers)(&e.Validation)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Epoch) UnmarshalJSON(b []byte) error {
	if e == nil {
		return bad("the epoch to read into is nil")
	}
	return json.Unmarshal(b, &epochJSON{(*epochFields)(e), (*numbers)(&e.Train), (*numbers)(&e.Validation)})
}
