package speedwell

import "math/bits"

// 128 steps per power of two, as in HdrHistogram: to within half a percent.
const (
	stepBits = 7
	steps    = 1 << stepBits
	buckets  = (64 - stepBits + 1) * steps
)

// A histogram of the time per iteration of each batch, in picoseconds.
type histogram struct {
	counts [buckets]uint32
	total  int64
	least  uint64
}

func (h *histogram) add(ps uint64) {
	shift := max(bits.Len64(ps)-stepBits-1, 0)
	h.counts[shift*steps+int(ps>>shift)]++
	if h.total == 0 || ps < h.least {
		h.least = ps
	}
	h.total++
}

func (h *histogram) join(other *histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	if other.total > 0 && (h.total == 0 || other.least < h.least) {
		h.least = other.least
	}
	h.total += other.total
}

// Returns the minimum and three quantiles; nothing if there was no batch.
func (h *histogram) summary() []int64 {
	if h.total == 0 {
		return nil
	}
	return []int64{int64(h.least), h.quantile(5), h.quantile(25), h.quantile(50)}
}

// Returns the middle of the bucket below which this percentage of all times lies.
func (h *histogram) quantile(hundredths int64) int64 {
	wanted := max((h.total*hundredths+99)/100, 1)
	var seen int64
	for i, count := range h.counts {
		seen += int64(count)
		if seen < wanted {
			continue
		}
		// From the second power of two on, a bucket's index implies the leading bit of its times.
		shift := max(i/steps-1, 0)
		return int64(i-shift*steps)<<shift + int64(1)<<shift>>1
	}
	return 0
}
