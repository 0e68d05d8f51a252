package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"hikyaku/egress/config"
)

// readAgain reads the configuration at each SIGHUP for the agent. A wrong file changes nothing. The signal also comes when a terminal is closed: the agent
// must not die of it, as it would then clean nothing up. end ends that.
func readAgain(file string, log *slog.Logger) (reloads <-chan *config.File, end func()) {
	hangUps := make(chan os.Signal, 1)
	read := make(chan *config.File, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	go func() {
		for range hangUps {
			loaded, err := config.Load(file)
			switch {
			case err != nil:
				log.Error("the configuration is not read again, since it is wrong", "file", file, "error", err)
				continue
			case loaded.Border == nil:
				log.Warn("SIGHUP does nothing at a server: its configuration is read at the start alone; restart the agent for a new one")
				continue
			}
			select {
			case <-read: // not taken yet, and outdated now
			default:
			}
			read <- loaded
		}
	}()
	return read, func() {
		signal.Stop(hangUps)
		close(hangUps)
	}
}
