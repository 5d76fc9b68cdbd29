package recording

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// The layout of a file, all numbers little-endian:
//
//	0      magic (16 bytes), size of a half (8 bytes), checksum of these (4 bytes)
//	4096   the first half, and after it the second
//
// and of a half:
//
//	0      number of the segment (8 bytes), its random number (8 bytes), checksum of these (4 bytes)
//	20     frames: length of the payload (4 bytes), checksum of the random number and these (4 bytes),
//	       checksum of the random number and the payload (4 bytes), payload
const (
	magic         = "waybill relay 1\n"
	preambleSize  = len(magic) + 8 + 4
	firstHalf     = 4096
	segmentHeader = 8 + 8 + 4
	frameHeader   = 4 + 4 + 4

	minHalf = 64 << 10
	maxHalf = 512 << 20
)

// segment is the header of a half.
type segment struct {
	number uint64 // rises from segment to segment; the halves alternate
	random uint64
}

// offset is where the segment's half begins.
func (s segment) offset(half int64) int64 { return firstHalf + int64(s.number%2)*half }

func newSegment(number uint64) segment {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return segment{number, binary.LittleEndian.Uint64(random[:])}
}

// header appends the header of the segment's half.
func (s segment) header(to []byte) []byte {
	at := len(to)
	to = binary.LittleEndian.AppendUint64(to, s.number)
	to = binary.LittleEndian.AppendUint64(to, s.random)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[at:], castagnoli))
}

// seal fills in the header of a frame.
func (s segment) seal(frame []byte) {
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[4:], s.checksum(frame[:4]))
	binary.LittleEndian.PutUint32(frame[8:], s.checksum(payload))
}

// sealed returns the length of a frame's payload, and its checksum, if the header belongs to this segment.
func (s segment) sealed(header []byte) (length int64, sum uint32, yes bool) {
	yes = binary.LittleEndian.Uint32(header[4:]) == s.checksum(header[:4])
	return int64(binary.LittleEndian.Uint32(header)), binary.LittleEndian.Uint32(header[8:]), yes
}

// checksum returns the checksum of bytes of the segment.
func (s segment) checksum(p []byte) uint32 {
	var random [8]byte
	binary.LittleEndian.PutUint64(random[:], s.random)
	return crc32.Update(crc32.Checksum(random[:], castagnoli), castagnoli, p)
}

func preamble(half int64) []byte {
	p := binary.LittleEndian.AppendUint64([]byte(magic), uint64(half))
	return binary.LittleEndian.AppendUint32(p, crc32.Checksum(p, castagnoli))
}

// errForeign is the error of a file that is no recording.
var errForeign = errors.New("is not a recording of a relay")

// halfOf reads the preamble of a file and returns the size of its halves.
func halfOf(r io.ReaderAt) (int64, error) {
	p := make([]byte, preambleSize)
	if n, err := r.ReadAt(p, 0); n < len(p) {
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			return 0, fmt.Errorf("%w: it is empty", ErrTruncated)
		}
		return 0, fmt.Errorf("%w: it has %d bytes", errForeign, n)
	}
	half := int64(binary.LittleEndian.Uint64(p[len(magic):]))
	if string(p[:len(magic)]) != magic {
		return 0, errForeign
	}
	if binary.LittleEndian.Uint32(p[preambleSize-4:]) != crc32.Checksum(p[:preambleSize-4], castagnoli) || half < 1 || half > maxHalf {
		return 0, fmt.Errorf("%w: its beginning is overwritten", errDamaged)
	}
	return half, nil
}

// segmentAt reads the header of a half.
func segmentAt(r io.ReaderAt, number uint64, half int64) (s segment, there bool) {
	h := make([]byte, segmentHeader)
	if n, _ := r.ReadAt(h, segment{number: number}.offset(half)); n < len(h) {
		return s, false
	}
	s = segment{binary.LittleEndian.Uint64(h), binary.LittleEndian.Uint64(h[8:])}
	return s, binary.LittleEndian.Uint32(h[16:]) == crc32.Checksum(h[:16], castagnoli) && s.number%2 == number
}

// segments returns the segments of a file, the older one first.
func segments(r io.ReaderAt, half int64) (list []segment) {
	for number := range uint64(2) {
		if s, there := segmentAt(r, number, half); there {
			list = append(list, s)
		}
	}
	if len(list) == 2 && list[0].number > list[1].number {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// openFile opens a file that only its owner may read, creates it if it does not exist, and returns the
// number of the latest segment in it. A file that is no recording is not changed; a recording of another
// size is restarted.
func openFile(path string, half int64) (_ *os.File, latest uint64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, 0, err
	}
	if info.Size() > 0 {
		was, err := halfOf(f)
		if err != nil {
			return nil, 0, fmt.Errorf("%s %w; remove it, or name another file", path, err)
		}
		if was == half {
			for _, s := range segments(f, half) {
				latest = s.number
			}
			return f, latest, nil
		}
		if err := f.Truncate(0); err != nil {
			return nil, 0, err
		}
	}
	_, err = f.WriteAt(preamble(half), 0)
	return f, 0, err
}
