package job

import "encoding/hex"

// Bytes are the 16 bytes of an ID, in the order of the IDs themselves; false for one
// that is no UUID in lower case, which no job has.
func (id ID) Bytes() (b [16]byte, ok bool) {
	if len(id) != 36 {
		return b, false
	}
	at := 0
	for i := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			if id[at] != '-' {
				return b, false
			}
			at++
		}
		hi, lo := nibble(id[at]), nibble(id[at+1])
		if hi|lo > 15 {
			return b, false
		}
		b[i] = hi<<4 | lo
		at += 2
	}
	return b, true
}

// nibble is the value of a hexadecimal digit in lower case, more than 15 for what is none.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// IDOf is the ID with these bytes: see [ID.Bytes].
func IDOf(b [16]byte) ID {
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return ID(s[:])
}
