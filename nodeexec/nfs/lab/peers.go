package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/google/renameio/v2/maybe"
)

// peersFile is the form of a lab's map of machines.
type peersFile struct {
	Version  int          `json:"version"`
	Machines []listedPeer `json:"machines"`
}

type listedPeer struct {
	Peer
	Addresses []string `json:"addresses"`
}

// WritePeers writes a map of machines for PeersFile.
func WritePeers(name string, addresses map[string]Peer) error {
	file := peersFile{Version: tableVersion}
	for address, peer := range addresses {
		i := slices.IndexFunc(file.Machines, func(l listedPeer) bool { return l.Peer == peer })
		if i < 0 {
			i = len(file.Machines)
			file.Machines = append(file.Machines, listedPeer{Peer: peer})
		}
		file.Machines[i].Addresses = append(file.Machines[i].Addresses, address)
	}
	body, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return maybe.WriteFile(name, body, 0o644) // whole: agents read it at any time
}

// PeersFile looks machines up in a file, read anew each time: machines may be
// added while the lab runs. An unreadable file knows no machine.
func PeersFile(name string) func(address string) (Peer, bool) {
	return func(address string) (Peer, bool) {
		file, err := readPeers(name)
		if err != nil {
			return Peer{}, false
		}
		for _, m := range file.Machines {
			if slices.Contains(m.Addresses, address) {
				return m.Peer, true
			}
		}
		return Peer{}, false
	}
}

func readPeers(name string) (file peersFile, err error) {
	body, err := os.ReadFile(name)
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(body, &file); err != nil {
		return file, fmt.Errorf("%s: %w", name, err)
	}
	if file.Version != tableVersion {
		return file, fmt.Errorf("%s has version %d, this program knows %d", name, file.Version, tableVersion)
	}
	return file, nil
}
