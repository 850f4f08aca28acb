package wire

// CompositionMagic begins a root of several images. The body lies one page after it.
const (
	CompositionMagic = "crucible:many:01"
	CompositionAt    = 4096
	CompositionMost  = 1 << 20
)

// Part is one image of several: where it lies, and how its commands are run. The first has no name.
type Part struct {
	Name           string
	Offset, Length uint64
	User           string
	Workdir        string
	Env            []Pair
}

func (m *Part) fields(b *body) {
	b.text(&m.Name)
	b.u64(&m.Offset)
	b.u64(&m.Length)
	b.text(&m.User)
	b.raw(&m.Workdir)
	listOf(b, &m.Env, 8, func(b *body, pair *Pair) { pair.fields(b) })
}

// Composition tells of every image in a root, the first one first.
type Composition struct{ Parts []Part }

func (m *Composition) fields(b *body) {
	listOf(b, &m.Parts, 32, func(b *body, part *Part) { part.fields(b) })
}

// ExecIn is EXEC in the world of a further image.
type ExecIn struct {
	Image string
	Exec
}

func (m *ExecIn) fields(b *body) {
	b.text(&m.Image)
	m.Exec.fields(b)
}
