package main

// dash is a cell of a table, with a dash where it would be empty.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
