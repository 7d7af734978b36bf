// Package access says who may see, use and write what: one table of roles
// for the planner, which judges what a run mounts (V-6, X-32), and for the status
// API, which scopes its answers.
//
// It is pure. Roles come from the objects in force: an org's admins, a workspace's
// members. It knows neither tokens nor requests, and it does not guard the
// repository: who may write which file is CODEOWNERS' until commits are signed.
//
// What an actor may not see is to be answered as if it did not exist.
package access
