package preflight

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// managers checks the settings of programs that manage networks.
func (c *checker) managers() {
	root := hostRoot()
	c.networkd(root)
	for _, name := range c.managed() {
		link, there := c.devices[name]
		if !there {
			continue
		}
		state := filepath.Join(root, fmt.Sprintf("run/NetworkManager/devices/%d", link.Attrs().Index))
		if settings([]string{state}, "device")["managed"] == "true" {
			c.add(checkManager, Warning, fmt.Sprintf("NetworkManager manages %s", name),
				"it removes addresses and main-table routes that are not its own whenever it activates a connection",
				fmt.Sprintf("set unmanaged-devices=interface-name:%s in the section [keyfile] of its configuration", name))
		}
	}
}

// managed are the interfaces that have something of the agent's.
func (c *checker) managed() []string {
	if s := c.File.Server; s != nil {
		return []string{s.SRv6.Interface}
	}
	names := slices.Clone(c.File.Border.SRv6.Interfaces)
	for i := range c.File.Border.Peers {
		if own, has := c.own(c.File.Border.Peers[i].LocalAddress); has {
			names = append(names, own.device)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rootVariable names, in tests, the folder that stands for the root of the file system.
const rootVariable = "HIKYAKU_EGRESS_PREFLIGHT_ROOT"

func hostRoot() string {
	if root := os.Getenv(rootVariable); root != "" {
		return root
	}
	return "/"
}

// networkd checks systemd-networkd's settings, where it runs.
func (c *checker) networkd(root string) {
	if _, err := os.Stat(filepath.Join(root, "run/systemd/netif/links")); err != nil {
		return
	}
	has := settings(configFiles(root), "Network")
	for _, key := range []string{"ManageForeignRoutingPolicyRules", "ManageForeignRoutes", "ManageForeignNextHops"} {
		if !slices.Contains([]string{"no", "false", "off", "0"}, strings.ToLower(has[key])) {
			c.add(checkManager, Warning, fmt.Sprintf("systemd-networkd runs, and its configuration does not say %s=no", key),
				"it removes the agent's state whenever it starts or configures a link anew",
				fmt.Sprintf("put %s=no into the section [Network] of /etc/systemd/networkd.conf.d/hikyaku-egress.conf", key))
		}
	}
	if s := c.File.Server; s != nil {
		c.keptAddresses(root, s.SRv6.Interface)
	}
}

// keptAddresses checks that networkd leaves EPE addresses on their interface.
func (c *checker) keptAddresses(root, name string) {
	link, there := c.devices[name]
	if !there {
		return
	}
	state := settings([]string{filepath.Join(root, fmt.Sprintf("run/systemd/netif/links/%d", link.Attrs().Index))}, "")
	file := state["NETWORK_FILE"]
	if file == "" { // not managed
		return
	}
	dropIns, _ := filepath.Glob(filepath.Join(root, "etc/systemd/network", filepath.Base(file)+".d", "*.conf"))
	kept := settings(append([]string{filepath.Join(root, file)}, dropIns...), "Network")["KeepConfiguration"]
	if kept != "static" && kept != "yes" {
		c.add(checkManager, Warning, fmt.Sprintf("systemd-networkd manages %s by %s, without KeepConfiguration=static", name, file),
			"it removes EPE addresses when it starts anew", fmt.Sprintf("put KeepConfiguration=static into the section [Network] of %s", file))
	}
}

// configFiles are those of systemd-networkd; the last one counts most. Of files with one name
// only that of the most important folder counts (networkd.conf(5)).
func configFiles(root string) []string {
	byName := map[string]string{}
	for _, folder := range []string{"usr/lib", "run", "etc"} {
		found, _ := filepath.Glob(filepath.Join(root, folder, "systemd/networkd.conf.d/*.conf"))
		for _, file := range found {
			byName[filepath.Base(file)] = file
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	files := []string{filepath.Join(root, "etc/systemd/networkd.conf")}
	for _, name := range names {
		files = append(files, byName[name])
	}
	return files
}

// settings reads a section's keys from files, of which later ones count more. The section
// "" has the lines before all others.
func settings(files []string, section string) map[string]string {
	values := map[string]string{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		in := ""
		for lines := bufio.NewScanner(f); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
				in = line[1 : len(line)-1]
			} else if key, value, ok := strings.Cut(line, "="); ok && in == section && !strings.HasPrefix(line, "#") {
				values[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
		f.Close()
	}
	return values
}
