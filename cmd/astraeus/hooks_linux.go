package main

func platformHooks() {}
