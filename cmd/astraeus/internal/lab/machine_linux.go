package lab

func machineMain(conf string) error { return nil }
