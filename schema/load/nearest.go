package load

// nearest is the known name closest to a misspelt one, "" when none is near:
// at most a third of its letters differ, two swapped neighbours counting once.
func nearest(name string, known []string) string {
	best, limit := "", len(name)/3+1
	if limit > 3 {
		limit = 3
	}
	if len(name) < 2 || len(name) > 64 {
		return ""
	}
	for _, k := range known {
		if d := distance(name, k); d <= limit && (best == "" || d < distance(name, best)) {
			best = k
		}
	}
	return best
}

// distance is the edit distance by insert, delete, replace and swap of neighbours.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, now := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(old[j]+1, now[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], older[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
