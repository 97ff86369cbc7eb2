package op

import "testing"

func TestOver(t *testing.T) {
	adam := Update{Rule: AdamRule}
	first := Update{Rule: AdamRule, First: true}
	for _, c := range []struct {
		id   ID
		a    Attrs
		r, i int
		want bool
	}{
		{Exp, nil, 0, 0, true},
		{Where, nil, 0, 2, true},
		{Pow, nil, 0, 0, false},
		{Sum, nil, 0, 0, false},
		{Softmax, nil, 0, 0, false},
		{UpdateAll, adam, 0, 0, true},
		{UpdateAll, adam, 0, 1, false}, // the gradient
		{UpdateAll, adam, 1, 2, true},
		{UpdateAll, adam, 2, 3, true},
		{UpdateAll, adam, 2, 2, false},
		{UpdateAll, adam, 3, 4, true}, // the second parameter
		{UpdateAll, adam, 4, 6, true},
		{UpdateAll, adam, 3, 0, false},
		{UpdateAll, first, 0, 0, true},
		{UpdateAll, first, 3, 2, true},
		{UpdateAll, first, 1, 1, false},
		{UpdateAll, Update{}, 1, 2, true}, // plain gradient descent remembers nothing
		{ScaleAll, nil, 1, 1, true},
		{ScaleAll, nil, 1, 0, false},
	} {
		if got := Get(c.id).Over(c.a, c.r, c.i); got != c.want {
			t.Errorf("%s %+v: result %d over operand %d is %v", c.id, c.a, c.r, c.i, got)
		}
	}
}
