package planner

import (
	"testing"
)

const frame = `
kind: Cluster
metadata: {name: example}
---
kind: Org
metadata: {name: acme}
---
kind: Workspace
metadata: {name: research}
---
kind: HostPathGrant
metadata: {name: data}
spec: {workspace: research, paths: [/mnt, /lustre, /scratch]}
`

func TestSmoke(t *testing.T) {
	d := declare(t, "c1", frame+`
---
kind: Machine
metadata: {name: gpu-01}
spec: {data_location: {path: /data/astraeus}}
---
kind: Machine
metadata: {name: gpu-02}
---
kind: Drive
metadata: {name: imagenet}
spec: {sources: [{node: gpu-01, path: /mnt/imagenet, mount_path: /data}]}
---
kind: Drive
metadata: {name: hf-cache}
spec: {sources: [{node_scope: placed, path: "", mount_path: /cache, mode: ReadWrite}], evictable: true, size_hint_bytes: 1000}
---
kind: Run
metadata: {name: train}
spec:
  task_template:
    command: sh
    requested_resources: {cpu_cores: 2, memory_bytes: 1000, gpu_requests: {count: 2}, machines: 2}
    datavolume_refs: [{name: imagenet}]
---
kind: Run
metadata: {name: eval}
spec:
  task_template:
    command: sh
    datavolume_refs: [{name: hf-cache}]
`)
	o := observe(t, `
machines:
- name: gpu-01
  state: Up
  address: 192.0.2.1
  resources: {cpu_cores: 4, memory_bytes: 10000, gpus: 4}
  filesystems: [{mount_point: /, type: ext4, system: true, total_bytes: 100, free_bytes: 50, free_inodes: 1}, {mount_point: /data, type: ext4, total_bytes: 100, free_bytes: 50000, free_inodes: 1}]
  copies: []
  exports: []
  mounts: []
  workers: []
- name: gpu-02
  state: Up
  address: 192.0.2.2
  resources: {cpu_cores: 4, memory_bytes: 10000, gpus: 4}
  filesystems: []
  copies: []
  exports: []
  mounts: []
  workers: []
`)
	p := Plan(Input{Desired: d, Observed: o, Now: testNow, Seed: "s"})
	t.Log("\n" + planText(p))
}
