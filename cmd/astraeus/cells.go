package main

import (
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
	"astraeus.io/astraeus/statusapi"
)

// Cells of tables. Unknown is an empty cell, which the table shows as "-".

func sizeCell(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return bytesCell(*bytes)
}

// bytesCell is a size without the blank before its unit: columns are split on blanks.
func bytesCell(bytes int64) string {
	if bytes < 0 {
		return ""
	}
	return strings.ReplaceAll(schema.Size(bytes), " ", "")
}

func numberCell[T int | int64](n *T) string {
	if n == nil || *n < 0 { // -1 is unknown too
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// workspaceOf is an object's workspace, "" for one that is in none.
func workspaceOf(m statusapi.Metadata) string {
	if m.Workspace == "" {
		return ""
	}
	return workspaceCell(m.Org, m.Workspace)
}

func workspaceCell(org, workspace string) string {
	if workspace == "" {
		return org
	}
	return org + "/" + workspace
}
