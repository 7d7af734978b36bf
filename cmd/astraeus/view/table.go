package view

import (
	"strings"
	"unicode/utf8"
)

const columnGap = "  "

// writeTable writes plain aligned columns: no boxes, one line a row, an empty
// cell as "-", so that a script can split on blanks. The last column is not padded.
func writeTable(o Out, header []string, rows [][]string) error {
	widths := make([]int, len(header))
	for i, name := range header {
		widths[i] = utf8.RuneCountInString(name)
	}
	clean := make([][]string, len(rows))
	for i, row := range rows {
		clean[i] = make([]string, len(header))
		for j := range header {
			cell := "-"
			if j < len(row) && row[j] != "" {
				cell = Plain(row[j])
			}
			clean[i][j] = cell
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	if err := o.printf("%s", o.paint(bold, alignRow(header, widths))); err != nil {
		return err
	}
	for _, row := range clean {
		if err := o.printf("%s", alignRow(row, widths)); err != nil {
			return err
		}
	}
	return nil
}

func alignRow(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + columnGap)
		}
	}
	return b.String()
}
