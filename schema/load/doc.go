// Package load turns the files of a desired-state repository into a
// *schema.Desired. It alone knows CUE; the reconciler and the command line call
// it with an fs.FS, and it touches nothing else: no disk, no network, no
// registry.
//
// # Files
//
// Files end in .cue, .yaml, .yml or .json; other files, names that start with a
// dot and cue.mod are passed over, and so are files outside orgs/ that are not
// cluster.* and hold nothing of ours. Org and workspace come from the path
// (G-3), the name from metadata.name; file names are free. A file without kind
// takes the kind of its folder (drives/ …), so that the bodies of the documents
// are valid files, the flat ones of a volume (volumes/) and a task (runs/) too.
//
// A file is an object if it has kind, metadata or spec at its top. Otherwise its
// values are looked through, up to three levels of fields and lists deep, and
// each with a kind is an object; an object deeper down is a problem, and so is what
// stands among objects in a YAML or JSON list and is none. A YAML file may have several documents.
// A file or document that yields no object is a problem, because it may have been
// one: remove it to remove its object. A CUE file with a package clause may yield none.
//
// # CUE packages
//
// CUE files that compute nothing are read as data, each by itself. Of those with
// a package clause and something to compute:
//
//   - a file that is an object is evaluated by itself, together with the
//     definitions (#x), hidden fields (_x) and lets of the other files of its
//     package in its directory and in the directories above;
//   - the files that are no objects are evaluated together as one value, with
//     the definitions of the others and of those above, and their values are
//     looked through for objects.
//
// Imports are CUE's standard library, lib/ and its folders, and directories
// above; the import path is the module's of cue.mod/module.cue, or
// astraeus.io/repo. Files in lib/ yield no objects. When one file of what is
// evaluated together cannot be used, none of it is: half a definition would make
// another object, not a missing one.
//
// # The tree
//
// The fs.FS may implement HashFS, so that unchanged files are not opened, and
// ProblemFS, to name what it does not serve. Independently of it symlinks and
// irregular files are never followed, names with control characters and names
// that differ only in case or Unicode form are refused, and a file over the
// limit is not opened.
//
// # Problems
//
// Every problem becomes a schema.Diagnostic with its place (G-4). An object with
// an error is not in Objects; its key is in Invalid as far as it could be read,
// also from a file with a syntax error, and its folder is not whole (G-5).
// What needs other objects or accepted state (grants, used names, volume paths)
// is judged by the planner.
//
// # Hostile files
//
// Data is read by readers of this package in linear time and bounded depth. What
// CUE's parser or evaluator must see goes to a child process (MaybeChild) that is
// killed at a deadline or when it takes too much memory; the file is then
// UNREADABLE and all others load.
package load
