package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// The shells ask the program itself for candidates, so that a new flag needs no
// new script.
const (
	bashCompletion = `_astraeus() {
	local word=${COMP_WORDS[COMP_CWORD]}
	local IFS=$'\n'
	local -a line=("${COMP_WORDS[@]:0:COMP_CWORD}")
	COMPREPLY=($(compgen -W "$("${line[@]}" "$word" ` + completionFlag + ` 2>/dev/null)" -- "$word"))
}
complete -o default -F _astraeus astraeus
`
	zshCompletion = `#compdef astraeus
_astraeus() {
	local -a found
	found=("${(@f)$("${(@)words[1,CURRENT-1]}" "${words[CURRENT]}" ` + completionFlag + ` 2>/dev/null)}")
	if [[ -n $found ]]; then
		compadd -- "${found[@]}"
	else
		_files
	fi
}
compdef _astraeus astraeus
`
	fishCompletion = `function __astraeus_complete
	set -l line (commandline -opc)
	set -l word (commandline -ct)
	$line "$word" ` + completionFlag + ` 2>/dev/null
end
complete -c astraeus -f -a '(__astraeus_complete)'
complete -c astraeus -l repo -r
complete -c astraeus -l observed -r -F
`
)

var completionScripts = map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}

func completionCommand(env *environment) *cli.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for a shell",
		ArgsUsage: "bash|zsh|fish",
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return fmt.Errorf("completion takes one argument: bash, zsh or fish")
			}
			script, ok := completionScripts[c.Args().First()]
			if !ok {
				return unknownWord("shell", c.Args().First(), suggestion(c.Args().First(), shells))
			}
			_, err := io.WriteString(env.stdout, script)
			return err
		},
	}
}
