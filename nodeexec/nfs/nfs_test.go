package nfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

func TestPlacesOfAClaim(t *testing.T) { // X-20, D-80
	drive := schema.Key{Kind: schema.KindDrive, Namespace: "ws-1", Name: "imagenet"}
	c := ClaimOfExport(schema.ExportTarget{Drive: drive, UID: "u1", Source: 2, Client: "gpu-02"})
	require.Equal(t, c, ClaimOfMount(schema.MountTarget{Drive: drive, UID: "u1", Source: 2, From: "gpu-01"}, "gpu-02"))
	require.Equal(t, "/work/exports/u1-2-gpu-02", c.ExportDir("/work"))
	require.Equal(t, "/work/datavolumes/mounts/ws-1.imagenet-2", c.MountDir("/work"))
}
