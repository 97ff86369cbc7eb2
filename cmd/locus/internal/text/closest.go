package text

// Closest returns the word that s was probably meant to be, "" if none is near: at
// most one letter in three may be wrong, missing, too many or swapped.
func Closest(s string, words []string) string {
	best, at := "", len([]rune(s))/3+1
	for _, w := range words {
		if d := distance([]rune(s), []rune(w)); d < at || d == at && best == "" && d <= len([]rune(w))/2 {
			best, at = w, d
		}
	}
	return best
}

// distance is the number of letters to change, insert, leave out or swap with
// their neighbor.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
