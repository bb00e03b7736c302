package sqlitestore

import "testing"

func TestNetworkFileSystems(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0x01021997: "9P", 0xef53: "", 0x01021994: "", 0x9123683e: ""} {
		if got := networkName(magic); got != want {
			t.Errorf("%#x is %q, want %q", magic, got, want)
		}
	}
}
