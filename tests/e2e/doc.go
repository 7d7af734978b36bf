// Package e2e runs real agents and a real controller on real filesystems: ext4
// on loop devices that fill up. Its tests need root and run in mount and pid
// namespaces of their own, so that whatever happens to them the machine has no
// mount, loop device or worker of theirs afterwards.
package e2e
