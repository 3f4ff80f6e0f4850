package tiny

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

var sink int

// work is the amount of work of one operation. Variants of a comparison set its factor; one waits for a file to go away.
func work() int {
	for _, err := os.Stat(os.Getenv("HOLD")); err == nil; _, err = os.Stat(os.Getenv("HOLD")) {
		time.Sleep(10 * time.Millisecond)
	}
	if n, err := strconv.Atoi(os.Getenv("WORK")); err == nil {
		return 1000 * n
	}
	return 1000
}

func add(n int) {
	for i := 0; i < n; i++ {
		sink += i ^ sink
	}
}

func BenchmarkSum(b *testing.B) {
	for _, times := range []int{1, 4} {
		b.Run(fmt.Sprintf("times=%d", times), func(b *testing.B) {
			n := work() * times
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				add(n)
			}
			b.ReportMetric(float64(n), "steps/op")
		})
	}
}

func BenchmarkFails(b *testing.B)  { b.Fatal("no luck") }
func BenchmarkPanics(b *testing.B) { panic("worse luck") }
func BenchmarkSkips(b *testing.B)  { b.Skip("not on this machine") }
