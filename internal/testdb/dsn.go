package testdb

import (
	"strings"

	"pgregory.net/rapid"
)

// awkward are what passwords are made of, and what ends one where it should not.
var awkward = []string{"@", "/", "?", "#", ":", "%", "%40", "%zz", "&", "=", "+", ",", ";", " ", "\\", "'", "\"", "(", ")", "[", "]", "`", "$", "ü",
	"@tcp(", ")/", "?password=", "&host=", "&a.", "?a.", "://", "mysql:", "postgres://", ",sqlite:", ",mariadb:", "?socket=/", "0", "1234", "q", "xyzzy", "Plugh"}

// A Way is a form of DSN with a place for a password, and what may be seen and dialled of it.
type Way struct{ Before, Behind, Scheme, Host string }

// Ways are the forms, right ones and wrong ones.
func Ways() []Way {
	return []Way{
		{"postgres://root:", "@198.51.100.7:2/vault", "postgres", "198.51.100.7:2"},
		{"postgresql://root:", "@db.test/vault?sslmode=disable", "postgres", "db.test"},
		{"postgres://db.test/vault?sslmode=disable&user=root&password=", "", "postgres", "db.test"},
		{"postgres://db.test/vault?app.tenant=5&user=root&password=", "", "postgres", "db.test"},
		{"mysql://root:", "@db.test:3/vault", "mysql", "db.test:3"},
		{"mysql:root:", "@tcp(db.test:3)/vault", "mysql", "db.test:3"},
		{"root:", "@tcp(db.test:3)/vault?collation=utf8mb4_bin", "mysql", "db.test:3"},
		{"root:", "@unix(/run/my.sock)/vault", "mysql", "/run/my.sock"},
		{"mariadb://root:", "@localhost/vault?socket=/run/my.sock", "mysql", "/run/my.sock"},
		{"mariadb:root:", "@unix(/run/my.sock)/vault", "mysql", "/run/my.sock"},
		{"mysql://localhost/vault?tls=false&socket=/run/my.sock&password=", "", "", ""},
		{"mysqli://root:", "@db.test/vault", "", ""},
		{"host=db.test user=root password=", " dbname=vault", "", ""},
		{"postgres:host=db.test user=root password=", "", "", ""},
		{"root:", "@db.test/vault", "", ""},
		{"sqlite://root:", "@db.test/vault", "", ""},
		{"sqlite:vault.db?_key=", "", "", ""},
		{"jdbc:postgresql://db.test/vault?user=root&password=", "", "", ""},
	}
}

// marks are letters that passwords are drawn with. None of our own words has one
// beside a special character or beside another, so what has is of a password.
const marks = "QXZKJ"

// Password draws a password.
func Password(t *rapid.T) string {
	begin := strings.Join(rapid.SliceOfN(rapid.SampledFrom(awkward), 0, 5).Draw(t, "begin"), "")
	return begin + rapid.StringMatching(`[`+marks+`@/:?#%&=,]{2,4}[`+marks+`]{2}[`+marks+`@/:?#%&=,]{0,6}`).Draw(t, "end")
}

// Leak is a part of four characters of a password that text shows, or empty.
func Leak(text, password string) string {
	runes := []rune(password)
	for i := range len(runes) - 3 {
		if part := string(runes[i : i+4]); strings.ContainsAny(part, marks) && strings.Contains(text, part) {
			return part
		}
	}
	return ""
}
