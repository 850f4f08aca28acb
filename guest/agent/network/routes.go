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

	ruleToTable      = 1
	attributeRuleTo  = 1
	attributeRuleFor = 6
	attributeRuleIP  = 22
)

// routes is a conversation with the kernel about where addresses lead. A table of our own decides whether
// there is a way out: with its one route every address is the machine's own, without it none is but those
// of the loopback. Only TCP is sent to that table, so everything else is unreachable at any time.
type routes struct {
	socket  int
	message []byte
	answer  []byte
	hasV6   bool
}

func openRoutes(hasV6 bool) (*routes, error) {
	socket, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("netlink", err)
	}
	return &routes{socket: socket, answer: make([]byte, answerBytes), hasV6: hasV6}, nil
}

// prepare does once what need not be done when the way is opened.
func (r *routes) prepare() error {
	// Programs look for an address besides 127.0.0.1 before they ask for one of others.
	if err := r.ask(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE,
		[]byte{syscall.AF_INET, 32, 0, universeScope, loopback, 0, 0, 0},
		attribute{syscall.IFA_LOCAL, ownAddress[:]}, attribute{syscall.IFA_ADDRESS, ownAddress[:]},
	); err != nil {
		return os.NewSyscallError("add address", err)
	}
	priority := attribute{attributeRuleFor, binary.NativeEndian.AppendUint32(nil, rulePriority)}
	tcp := attribute{attributeRuleIP, []byte{syscall.IPPROTO_TCP}}
	if err := r.addRule(syscall.AF_INET, 0, priority, tcp); err != nil {
		return err
	}
	if err := r.addRule(syscall.AF_INET, 32, priority, attribute{attributeRuleTo, namesAddress[:]}); err != nil {
		return err
	}
	if !r.hasV6 {
		return nil
	}
	return r.addRule(syscall.AF_INET6, 0, priority, tcp)
}

func (r *routes) addRule(family, prefix byte, attributes ...attribute) error {
	header := []byte{family, prefix, 0, 0, wayOut, 0, 0, ruleToTable, 0, 0, 0, 0}
	err := r.ask(syscall.RTM_NEWRULE, syscall.NLM_F_CREATE|syscall.NLM_F_EXCL, header, attributes...)
	return os.NewSyscallError("add rule", err)
}

// open makes every address one of the machine's own.
func (r *routes) open() error { return r.change(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE) }

// close makes them unreachable again.
func (r *routes) close() error { return r.change(syscall.RTM_DELROUTE, 0) }

func (r *routes) change(kind uint16, flags uint16) error {
	device := attribute{syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback)}
	source := attribute{syscall.RTA_PREFSRC, ownAddress[:]}
	if err := r.ask(kind, flags, everywhere(syscall.AF_INET), device, source); err != nil {
		return os.NewSyscallError("route", err)
	}
	if !r.hasV6 {
		return nil
	}
	return os.NewSyscallError("route", r.ask(kind, flags, everywhere(syscall.AF_INET6), device))
}

func everywhere(family byte) []byte {
	return []byte{
		family, 0, 0, 0, wayOut, syscall.RTPROT_STATIC, syscall.RT_SCOPE_HOST, syscall.RTN_LOCAL, 0, 0, 0, 0,
	}
}

type attribute struct {
	kind  uint16
	value []byte
}

// ask sends one message and returns the kernel's verdict.
func (r *routes) ask(kind, flags uint16, header []byte, attributes ...attribute) error {
	message := append(r.message[:0], make([]byte, syscall.NLMSG_HDRLEN)...)
	message = append(message, header...)
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
	binary.NativeEndian.PutUint16(message[6:], flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	r.message = message
	if err := syscall.Sendto(r.socket, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	count, _, err := syscall.Recvfrom(r.socket, r.answer, 0)
	if err != nil {
		return err
	}
	if count < syscall.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(r.answer[4:]) != syscall.NLMSG_ERROR {
		return syscall.EPROTO
	}
	if verdict := int32(binary.NativeEndian.Uint32(r.answer[syscall.NLMSG_HDRLEN:])); verdict != 0 {
		return syscall.Errno(-verdict)
	}
	return nil
}
