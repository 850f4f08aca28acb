package network

import (
	"encoding/binary"
	"os"
	"syscall"
)

const (
	loopback      = 1 // the first interface of every network namespace
	wayOut        = 100
	rulePriority  = 100
	answerBytes   = 4096
	universeScope = 0

	ruleToTable           = 1
	attributeRuleTo       = 1
	attributeRulePriority = 6
	attributeRuleProtocol = 22
)

// routes is a conversation with the kernel about where addresses lead.
type routes struct{ socket int }

// makeAllOurs makes every address one of the machine's own, for TCP alone: so connections to them can be
// steered, and everything else has no way at any time.
func makeAllOurs(hasV6 bool) error {
	socket, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	defer syscall.Close(socket)
	r := routes{socket}
	// Programs look for an address besides 127.0.0.1 before they ask for one of others.
	if err := r.ask(syscall.RTM_NEWADDR,
		[]byte{syscall.AF_INET, 32, 0, universeScope, loopback, 0, 0, 0},
		attribute{syscall.IFA_LOCAL, ownAddress[:]}, attribute{syscall.IFA_ADDRESS, ownAddress[:]},
	); err != nil {
		return os.NewSyscallError("add address", err)
	}
	tcp := attribute{attributeRuleProtocol, []byte{syscall.IPPROTO_TCP}}
	udp := attribute{attributeRuleProtocol, []byte{syscall.IPPROTO_UDP}}
	source := attribute{syscall.RTA_PREFSRC, ownAddress[:]}
	if err := r.addRoute(syscall.AF_INET, source); err != nil {
		return err
	}
	if err := r.addRule(syscall.AF_INET, 0, tcp); err != nil {
		return err
	}
	if err := r.addRule(syscall.AF_INET, 32, udp, attribute{attributeRuleTo, namesAddress[:]}); err != nil {
		return err
	}
	if !hasV6 {
		return nil
	}
	if err := r.addRoute(syscall.AF_INET6); err != nil {
		return err
	}
	return r.addRule(syscall.AF_INET6, 0, tcp)
}

// addRule sends what the attributes tell to a table of our own.
func (r *routes) addRule(family, prefix byte, attributes ...attribute) error {
	header := []byte{family, prefix, 0, 0, wayOut, 0, 0, ruleToTable, 0, 0, 0, 0}
	priority := attribute{attributeRulePriority, binary.NativeEndian.AppendUint32(nil, rulePriority)}
	return os.NewSyscallError("add rule", r.ask(syscall.RTM_NEWRULE, header, append(attributes, priority)...))
}

// addRoute makes that table say that every address is the machine's own.
func (r *routes) addRoute(family byte, attributes ...attribute) error {
	header := []byte{
		family, 0, 0, 0, wayOut, syscall.RTPROT_STATIC, syscall.RT_SCOPE_HOST, syscall.RTN_LOCAL, 0, 0, 0, 0,
	}
	device := attribute{syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback)}
	return os.NewSyscallError("add route", r.ask(syscall.RTM_NEWROUTE, header, append(attributes, device)...))
}

type attribute struct {
	kind  uint16
	value []byte
}

// ask has the kernel create something and returns its verdict.
func (r *routes) ask(kind uint16, header []byte, attributes ...attribute) error {
	message := append(make([]byte, syscall.NLMSG_HDRLEN), header...)
	for _, each := range attributes {
		message = binary.NativeEndian.AppendUint16(message, uint16(syscall.SizeofRtAttr+len(each.value)))
		message = binary.NativeEndian.AppendUint16(message, each.kind)
		message = append(message, each.value...)
		for len(message)%syscall.RTA_ALIGNTO != 0 {
			message = append(message, 0)
		}
	}
	binary.NativeEndian.PutUint32(message, uint32(len(message)))
	binary.NativeEndian.PutUint16(message[4:], kind)
	binary.NativeEndian.PutUint16(message[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|syscall.NLM_F_CREATE|syscall.NLM_F_EXCL)
	if err := syscall.Sendto(r.socket, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, answerBytes)
	count, _, err := syscall.Recvfrom(r.socket, answer, 0)
	if err != nil {
		return err
	}
	if count < syscall.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != syscall.NLMSG_ERROR {
		return syscall.EPROTO
	}
	if verdict := int32(binary.NativeEndian.Uint32(answer[syscall.NLMSG_HDRLEN:])); verdict != 0 {
		return syscall.Errno(-verdict)
	}
	return nil
}
