package backendtest

import (
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// A kernel that computes half precision in float32, and rounds what is remembered and the gradient on
// the way, as CUDA's does, is near enough.
func TestUpdatesMayRoundOnTheWay(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16, dtype.Float32} {
		r := func(x float64) float64 { return round(d, float64(float32(x))) }
		tried, noticed, msg := tries(op.UpdateAll, d, func(c *backend.Call, _ []byte) {
			u := c.Attrs.(op.Update)
			for i := range c.In {
				if c.In[i].Block == c.Out.Block || len(c.More) > 0 && c.In[i].Block == c.More[0].Block {
					return // the operands are gone
				}
			}
			get := func(v *backend.View, i int) float64 {
				p := v.Offset
				for ax, k := range coords(v.Shape, i) {
					p += k * v.Strides[ax]
				}
				return sample.GetFloat(d, mem(v.Block), p)
			}
			extra := c.In[len(c.In)-u.Extra():]
			if u.Gated && sample.GetInt(dtype.Bool, mem(extra[len(extra)-1].Block), extra[len(extra)-1].Offset) == 0 {
				return
			}
			for at, k := 0, 0; at+u.Extra() < len(c.In); at, k = at+u.Each(), k+1+u.Slots() {
				for i := range c.In[at].Elements() {
					p, g := get(&c.In[at], i), get(&c.In[at+1], i)
					if u.Scaled {
						g = r(g * get(&extra[0], 0))
					}
					if u.Decay != 0 {
						g = r(g + float64(float32(u.Decay))*p)
					}
					s := make([]float64, u.Slots())
					if !u.First {
						for j := range s {
							s[j] = get(&c.In[at+2+j], i)
						}
					}
					b1, b2 := u.Momentum, u.Beta
					var x float64
					switch u.Rule {
					case op.SGDRule:
						dd := g
						if u.Momentum != 0 {
							if s[0] = r(b1*s[0] + u.Fresh*g); u.First {
								s[0] = g
							}
							if dd = s[0]; u.Nesterov {
								dd = r(g + b1*s[0])
							}
						}
						x = u.Keep*p - u.Rate*dd
					case op.AdamRule:
						s[0], s[1] = r(b1*s[0]+(1-b1)*g), r(b2*s[1]+(1-b2)*g*g)
						x = u.Keep*p - u.Rate*s[0]/(math.Sqrt(s[1])*u.Root+u.Eps)
					case op.AdagradRule:
						if s[0] = r(s[0] + g*g); u.First {
							s[0] = r(g*g + u.Start)
						}
						x = u.Keep*p - u.Rate*g/(math.Sqrt(s[0])*u.Root+u.Eps)
					case op.RMSPropRule:
						s[0] = r(b2*s[0] + (1-b2)*g*g)
						v := s[0]
						if u.Centered {
							s[1] = r(b2*s[1] + (1-b2)*g)
							v -= s[1] * s[1]
						}
						dd := g / (math.Sqrt(v) + u.Eps)
						if u.Momentum != 0 {
							s[len(s)-1] = r(b1*s[len(s)-1] + dd)
							dd = s[len(s)-1]
						}
						x = u.Keep*p - u.Rate*dd
					}
					for j, y := range append([]float64{x}, s...) {
						out := &c.Out
						if k+j > 0 {
							out = &c.More[k+j-1]
						}
						sample.PutFloat(d, mem(out.Block), i, y)
					}
				}
			}
		})
		if noticed > 0 || tried == 0 {
			t.Errorf("%s: %d of %d samples: %s", d, noticed, tried, msg)
		}
	}
}
