package gitsource

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// remote keeps a bare single-branch clone of a repository that is reached over a network.
type remote struct {
	opt   Options
	link  *link
	obj   *objects
	cache *cacheDir
	dir   string // the clone in use; "" when there is none that works
}

// atRefs keeps commits that At brought from being lost when packs are merged.
const atRefs = "refs/astraeus/at/"

func openRemote(u URL, opt Options, obj *objects) (*remote, error) {
	cache, err := openCache(opt.CacheDir, u, opt.Ref)
	if err != nil {
		return nil, err
	}
	r := &remote{opt: opt, link: newLink(u, opt.Auth), obj: obj, cache: cache}
	if dir := cache.current(); dir != "" {
		if _, err := checkDirs(dir); err == nil && checkPacks(dir) == nil {
			r.use(dir)
		}
	}
	return r, nil
}

func (r *remote) use(dir string) {
	r.dir = dir
	if dir == "" {
		r.obj.use(nil)
		return
	}
	r.obj.use([]objectStore{{st: openClone(dir, r.obj)}})
}

// update asks the server where the ref is and fetches what is missing. One exchange when nothing moved.
func (r *remote) update(ctx context.Context) (tip, error) {
	return r.bring(ctx, func(adv *packp.AdvRefs) (tip, error) { return advertised(adv, r.opt.Ref) }, "")
}

func (r *remote) resolve(ctx context.Context, rev string) (tip, error) {
	h, full := fullHash(rev)
	if full {
		if t, err := tipOfHash(r.obj, h); r.dir != "" && !errors.Is(err, ErrRefNotFound) {
			return t, err
		}
		pick := func(*packp.AdvRefs) (tip, error) { return tip{commit: h}, nil }
		return r.bring(ctx, pick, plumbing.ReferenceName(atRefs+h.String()))
	}
	pick := func(adv *packp.AdvRefs) (tip, error) { return advertised(adv, rev) }
	t, err := r.bring(ctx, pick, atRefs)
	if !errors.Is(err, ErrRefNotFound) {
		return t, err
	}
	if h, abbr := r.obj.abbreviated(rev); abbr == nil {
		return tip{commit: h}, nil
	}
	return t, err
}

// bring makes the commit that pick chooses readable. keep is the ref it is kept under: "" its own name.
func (r *remote) bring(ctx context.Context, pick func(*packp.AdvRefs) (tip, error), keep plumbing.ReferenceName) (tip, error) {
	s, adv, err := r.link.open(ctx)
	if err != nil {
		return tip{}, err
	}
	defer s.Close()
	t, err := pick(adv)
	if err != nil {
		return tip{}, err
	}
	if r.dir != "" {
		if _, err := r.obj.typeOf(t.commit); err != errNoObject {
			if err != nil {
				return tip{}, err
			}
			return r.arrived(t)
		}
	}
	if err := r.transfer(ctx, s, adv, t, keep); err != nil {
		return tip{}, err
	}
	return r.arrived(t)
}

// arrived peels a tag that was fetched.
func (r *remote) arrived(t tip) (tip, error) { return refs{nil, r.obj}.peel(t) }

// transfer fetches into the clone in use, or into a new one that then takes its place.
func (r *remote) transfer(ctx context.Context, s session, adv *packp.AdvRefs, t tip, keep plumbing.ReferenceName) error {
	dir := r.dir
	if dir == "" {
		fresh, err := r.cache.begin()
		if err != nil {
			return err
		}
		dir = fresh
	}
	if err := r.receive(ctx, dir, s, adv, t, keep); err != nil {
		if dir != r.dir {
			_ = os.RemoveAll(dir)
		}
		return err
	}
	if dir != r.dir {
		if err := r.cache.swap(dir); err != nil {
			_ = os.RemoveAll(dir)
			return err
		}
	}
	r.use(dir)
	if countPacks(dir) > r.opt.MaxPacks {
		return r.repack()
	}
	return nil
}

func (r *remote) receive(ctx context.Context, dir string, s session, adv *packp.AdvRefs, t tip, keep plumbing.ReferenceName) error {
	st := openClone(dir, r.obj)
	defer st.Close()
	if err := r.link.fetch(ctx, s, adv, t.commit, st); err != nil {
		return err
	}
	switch {
	case keep == atRefs:
		keep = plumbing.ReferenceName(atRefs + t.commit.String())
	case keep == "" && (t.ref == "" || t.ref == plumbing.HEAD):
		keep = "refs/heads/astraeus-followed"
	case keep == "":
		keep = t.ref
	}
	if err := st.SetReference(plumbing.NewHashReference(keep, t.commit)); err != nil {
		return fail(ErrUnavailable, "cache: %w", err)
	}
	return nil
}

// repack makes one pack of many. A clone that cannot be repacked is damaged.
func (r *remote) repack() error {
	dir := r.dir
	r.obj.use(nil) // closes the packs that are about to go
	err := repackDir(dir, openClone(dir, r.obj))
	r.use(dir)
	if err != nil {
		return fail(ErrCorrupt, "merging packs: %w", err)
	}
	return nil
}

func repackDir(dir string, st *filesystem.Storage) error {
	defer st.Close()
	repo, err := git.Open(st, nil)
	if err != nil {
		return err
	}
	if err := repo.RepackObjects(&git.RepackConfig{}); err != nil {
		return err
	}
	if err := checkPacks(dir); err != nil {
		return fmt.Errorf("after merging: %w", err)
	}
	return nil
}

// repair gives up the clone: the next update makes a new one beside it and swaps. Until then what can be read of the
// old one stays readable.
func (r *remote) repair(context.Context) error {
	r.dir = ""
	return nil
}

func (r *remote) shallow() (map[plumbing.Hash]bool, error) { return nil, nil }

func (r *remote) close() error {
	r.link.close()
	return r.cache.close()
}
