// Package gitsource turns a ref of a git repository, or a directory as it lies, into a Snapshot: a commit and a
// read-only file tree with a hash for every file.
//
// What it does:
//   - Open follows one ref of a local repository (read in place, never written) or of an http(s) or ssh remote (a bare
//     clone in a cache directory). Fetch brings the newest commit, At any other, Watch says when to look again.
//   - IsAncestor, History and Changed answer how commits relate.
//   - DirSnapshot and Dir serve the files of a directory; Recorder turns them into commits of a private repository.
//
// What it does not do: it knows no object kind, writes to no repository but its own cache and the Recorder's, has no
// worktree, and runs no git program.
//
// What callers can rely on:
//   - An error is never an empty snapshot (G-5). Nothing about a failure is remembered: the next Fetch tries again.
//   - Symbolic links, submodules and names that are unsafe somewhere are never followed or served. Each is listed in
//     Snapshot.Problems, so that the reader can treat its directory as incomplete instead of as deleted.
//   - No error text, formatted value or marshalled value holds a credential.
//   - Everything exported is safe for concurrent use unless it says otherwise.
//
// Its callers are the loader (through fs.FS, ReadDirFS, ReadFileFS, StatFS and HashFS), the reconciler and the CLI.
package gitsource
