package boot

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"crucible.dev/agent/wire"
)

func TestCompositionsOfTheVectorsAreRead(t *testing.T) {
	raw, err := os.ReadFile("../../vectors/compositions.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Hex string
		Parts     []struct {
			Name, User, Workdir string
			Offset, Length      uint64
			Env                 [][2]string
		}
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, each := range cases {
		body, _ := hex.DecodeString(each.Hex)
		found, err := parseComposition(body)
		if err != nil || len(found.Parts) != len(each.Parts) {
			t.Errorf("%s: %v, %v", each.Name, found, err)
			continue
		}
		for i, want := range each.Parts {
			got := found.Parts[i]
			workdir, _ := hex.DecodeString(want.Workdir)
			if got.Name != want.Name || got.User != want.User || got.Workdir != string(workdir) ||
				got.Offset != want.Offset || got.Length != want.Length || len(got.Env) != len(want.Env) {
				t.Errorf("%s: %+v", each.Name, got)
			}
		}
		if again := wire.Encode(found); string(again) != string(body) {
			t.Errorf("%s: written as %x", each.Name, again)
		}
	}
}

func TestCompositionsThatMakeNoSenseAreRefused(t *testing.T) {
	first := wire.Part{}
	for name, parts := range map[string][]wire.Part{
		"nothing":             {},
		"a first with a name": {{Name: "app"}},
		"one without a name":  {first, {}},
		"a path":              {first, {Name: "../disk"}},
		"a slash":             {first, {Name: "a/b"}},
		"a dot":               {first, {Name: "."}},
		"capitals":            {first, {Name: "App"}},
		"two of one name":     {first, {Name: "app"}, {Name: "app"}},
		"too many":            make([]wire.Part, partsMost+1),
	} {
		if found, err := parseComposition(wire.Encode(&wire.Composition{Parts: parts})); err == nil {
			t.Errorf("%s was taken: %+v", name, found)
		}
	}
	if _, err := parseComposition([]byte{1, 0, 0, 0, 9}); err == nil {
		t.Error("half a list was taken")
	}
}

func FuzzComposition(f *testing.F) {
	f.Add(wire.Encode(&wire.Composition{Parts: []wire.Part{{}, {Name: "app", Env: []wire.Pair{{Name: "A", Value: "b"}}}}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if found, err := parseComposition(raw); err == nil && string(wire.Encode(found)) != string(raw) {
			t.Fatalf("%+v does not survive", found)
		}
	})
}
