package nodeexec

// LogsDir is the folder of the state directory in which workers' output is, one
// file <WorkerID>.log each.
const LogsDir = logsDir

// WorkerID names a worker for its engine and its log: what makes it the same
// worker.
func WorkerID(runUID string, generation int64, attempt int, name string) string {
	return workerID(runUID, generation, attempt, name)
}
