package rawjson

// deepest is how deep the JSON may be nested that encoding/json reads.
const deepest = 10_000

// Valid reports whether raw is one JSON value (RFC 8259) with nothing but white
// space around it, and how deep it is nested: 0 for a value that is neither an
// object nor an array. It reads each byte once, in half the time of
// [encoding/json.Valid], and says the same: bytes that are no UTF-8 are let through
// inside of strings, and what is nested deeper than 10,000 levels is not valid, as
// those who read it may call themselves for each level.
func Valid(raw []byte) (depth int, ok bool) {
	var n nesting
	for i := 0; ; {
		// A value begins here.
		if i = skipSpace(raw, i); i == len(raw) {
			return n.depth, false
		}
		switch c := raw[i]; c {
		case '{', '[':
			if !n.open(c) {
				return n.depth, false
			}
			if i = skipSpace(raw, i+1); i == len(raw) {
				return n.depth, false
			}
			if raw[i] == c+2 { // '}' and ']' come two behind '{' and '['
				break // it is empty, and is closed below
			}
			if c == '{' {
				if i = name(raw, i); i < 0 {
					return n.depth, false
				}
			}
			continue
		case '"':
			i = str(raw, i)
		case 't':
			i = word(raw, i, "true")
		case 'f':
			i = word(raw, i, "false")
		case 'n':
			i = word(raw, i, "null")
		default:
			i = number(raw, i)
		}
		if i < 0 {
			return n.depth, false
		}
		if i = n.ended(raw, i); i < 0 || n.level == 0 {
			return n.depth, i == len(raw)
		}
	}
}

// nesting is what is open where [Valid] is: each value that is has its bit, 1 for an
// object and 0 for an array.
type nesting struct {
	few          [2]uint64 // of the first 127, so that nothing is allocated for most
	more         []uint64
	level, depth int // how many are open, and the most that were
}

// kinds is the word of bits that holds that of a level.
func (n *nesting) kinds(level int) *uint64 {
	if i := level / 64; i < len(n.few) {
		return &n.few[i]
	}
	return &n.more[level/64-len(n.few)]
}

// open notes the value that c opens, and reports whether it may be that deep.
func (n *nesting) open(c byte) bool {
	if n.level++; n.level > deepest {
		return false
	}
	n.depth = max(n.depth, n.level)
	if n.level == 64*(len(n.few)+len(n.more)) {
		n.more = append(n.more, 0)
	}
	kinds, bit := n.kinds(n.level), uint64(1)<<(n.level%64)
	*kinds &^= bit
	if c == '{' {
		*kinds |= bit
	}
	return true
}

// ended is where the next value begins, or all of raw has ended, if a value has ended at
// raw[i:], or one that is empty is about to; negative if what stands there is neither.
func (n *nesting) ended(raw []byte, i int) int {
	for {
		i = skipSpace(raw, i)
		if n.level == 0 {
			return i
		}
		if i == len(raw) {
			return -1
		}
		object := *n.kinds(n.level)>>(n.level%64)&1 == 1
		c := raw[i]
		i++
		if c == ',' {
			if object {
				i = name(raw, skipSpace(raw, i))
			}
			return i
		}
		if object && c != '}' || !object && c != ']' {
			return -1
		}
		n.level--
	}
}

// space are the bytes that may stand between the parts of a value, and plain those
// that stand for themselves in a string.
var space, plain = func() (space, plain [256]bool) {
	for _, c := range " \t\r\n" {
		space[c] = true
	}
	for c := range plain {
		plain[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return space, plain
}()

// name is where the value of the member begins whose name is at raw[i:], behind the
// colon; negative if there is none.
func name(raw []byte, i int) int {
	if i == len(raw) || raw[i] != '"' {
		return -1
	}
	if i = str(raw, i); i < 0 {
		return -1
	}
	if i = skipSpace(raw, i); i == len(raw) || raw[i] != ':' {
		return -1
	}
	return i + 1
}

// str is where the string at raw[i:], which begins with its quote, has ended;
// negative if it does not.
func str(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		if plain[raw[i]] {
			continue
		}
		switch raw[i] {
		case '"':
			return i + 1
		case '\\':
			if i++; i == len(raw) {
				return -1
			}
			switch raw[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if len(raw)-i < 5 || !hex(raw[i+1]) || !hex(raw[i+2]) || !hex(raw[i+3]) || !hex(raw[i+4]) {
					return -1
				}
				i += 4
			default:
				return -1
			}
		default: // a control character
			return -1
		}
	}
	return -1
}

func hex(c byte) bool {
	return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func digit(c byte) bool { return c-'0' <= 9 }

// word is where w, which must be at raw[i:], has ended; negative if it is not there.
func word(raw []byte, i int, w string) int {
	if len(raw)-i < len(w) || string(raw[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

// number is where the number at raw[i:] has ended; negative if there is none.
func number(raw []byte, i int) int {
	if raw[i] == '-' {
		i++
	}
	if i < len(raw) && raw[i] == '0' {
		i++
	} else if i = digits(raw, i); i < 0 {
		return -1
	}
	if i < len(raw) && raw[i] == '.' {
		if i = digits(raw, i+1); i < 0 {
			return -1
		}
	}
	if i < len(raw) && raw[i]|0x20 == 'e' {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		return digits(raw, i)
	}
	return i
}

// digits is where the digits at raw[i:] have ended; negative if there is not one.
func digits(raw []byte, i int) int {
	begin := i
	for i < len(raw) && digit(raw[i]) {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}
