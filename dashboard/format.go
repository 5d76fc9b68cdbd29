package dashboard

// bar is one column of a small chart.
type bar struct{ X, Y, Height int }

const chartHeight = 24

// bars draws the hours of a day, the tallest as high as the chart.
func bars(hours [24]int) []bar {
	most := 1
	for _, n := range hours {
		most = max(most, n)
	}
	columns := make([]bar, 0, len(hours))
	for i, n := range hours {
		height := n * chartHeight / most
		if n > 0 {
			height = max(height, 2)
		} else {
			height = 1 // the base line
		}
		columns = append(columns, bar{X: i * 5, Y: chartHeight - height, Height: height})
	}
	return columns
}
