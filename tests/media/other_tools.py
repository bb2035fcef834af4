# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Files of recorders, taggers, scanners and editors, each by one line of shell; a line whose program is missing, or fails, makes no file.

In Debian: sox libsox-fmt-all lame flac vorbis-tools opus-tools espeak-ng mkvtoolnix twolame wavpack imagemagick libtiff-tools webp libheif-examples exiftool.
"""
import pathlib
import subprocess
import tempfile

# in.wav: a second of a tone at 44.1 kHz; wide.wav: of two channels; in.m4a: its AAC; in.png: the scene; in.jpg: its JPEG.
SOUNDS = """
WAV of sox: sox in.wav out.wav
WAV of sox in a pipe: sox in.wav -t wav - | cat > out
WAV of espeak-ng in a pipe: espeak-ng --stdout 'one two' | cat > out
WAV of lame in a pipe: lame --quiet in.wav - | lame --quiet --decode --mp3input - - > out
WAV of ffmpeg in a pipe: ffmpeg -v error -i in.wav -f wav - | cat > out
RF64 of ffmpeg in a pipe: ffmpeg -v error -i in.wav -rf64 always -f wav - | cat > out
BW64 by its name: ffmpeg -v error -i in.wav -rf64 always -f wav - > a.wav; sed 's/^RF64/BW64/' a.wav > out
WAV of 24 bits, two channels: sox wide.wav -b 24 out.wav
WAV of 24 bits in 6 channels: sox in.wav -b 24 -c 6 out.wav
WAV of floats at 96 kHz: sox in.wav -e float -b 32 -r 96000 out.wav
WAV of doubles: sox in.wav -e float -b 64 out.wav
WAV of 8 bits, odd length: sox in.wav -b 8 out.wav trim 0 44099s
WAV of Microsoft ADPCM: sox in.wav -e ms-adpcm out.wav
WAV of IMA ADPCM: sox wide.wav -e ima-adpcm out.wav
WAV of GSM: sox in.wav -r 8000 -e gsm-full-rate out.wav
WAV with a list behind: ffmpeg -v error -i in.wav -metadata title=A out.wav
WAV with bext: ffmpeg -v error -i in.wav -write_bext 1 -metadata description=A out.wav
WAV of 11,025 Hz: sox in.wav -r 11025 out.wav
AIFF of sox: sox wide.wav -b 24 out.aiff
AIFF of sox in a pipe: sox in.wav -t aiff - | cat > out
AIFF-C of sox: sox in.wav -t aifc out
AIFF little-endian: ffmpeg -v error -i in.wav -c:a pcm_s16le out.aifc
CAF in a pipe: ffmpeg -v error -i in.wav -f caf - | cat > out
CAF of 24 bits: ffmpeg -v error -i wide.wav -c:a pcm_s24le out.caf
CAF of mu-law: ffmpeg -v error -i in.wav -c:a pcm_mulaw out.caf
FLAC of flac: flac --silent in.wav -o out
FLAC of flac, best: flac --silent -8 wide.wav -o out
FLAC of flac in a pipe: cat in.wav | flac --silent -c - | cat > out
FLAC of ffmpeg in a pipe: ffmpeg -v error -i in.wav -f flac - | cat > out
FLAC of sox in a pipe: sox in.wav -t flac - | cat > out
FLAC of raw samples: sox in.wav -t raw - | flac --silent --endian=little --sign=signed --channels=1 --bps=16 --sample-rate=44100 -c - > out
FLAC of 24 bits: sox wide.wav -b 24 a.wav; flac --silent a.wav -o out
FLAC of 12 bits: sox in.wav -t raw - | flac --silent --endian=little --sign=signed --channels=1 --bps=16 --sample-rate=8000 -c - > out
FLAC of unequal blocks: flac --silent --blocksize=1234 in.wav -o out
FLAC with a picture: flac --silent in.wav -o out; metaflac --import-picture-from=in.jpg out
FLAC with an ID3 tag: flac --silent in.wav -o out.flac; ffmpeg -v error -i in.wav -id3v2_version 3 -write_id3v2 1 -metadata title=A a.mp3; (printf 'ID3\\003\\000\\000\\000\\000\\000\\012'; head -c 10 /dev/zero; cat out.flac) > out
FLAC with an old tag behind: flac --silent in.wav -o out.flac; (cat out.flac; printf 'TAG%-125s' title) > out
FLAC in Ogg, of flac: flac --silent --ogg in.wav -o out
MP3 of lame: lame --quiet in.wav out
MP3 of lame, variable: lame --quiet -V 2 wide.wav out
MP3 of lame, average: lame --quiet --abr 96 wide.wav out
MP3 of lame, no note: lame --quiet -t in.wav out
MP3 of lame in a pipe: lame --quiet - - < in.wav | cat > out
MP3 of lame, tags at both ends: lame --quiet --add-id3v2 --tt title --ta artist in.wav out
MP3 of lame, a picture: lame --quiet --ti in.jpg --tt title in.wav out
MP3 of lame, 8 kHz: lame --quiet --resample 8 -b 16 in.wav out
MP3 of lame, 16 kHz: lame --quiet --resample 16 in.wav out
MP3 of lame, checksums: lame --quiet -p in.wav out
MP3 of lame, no reservoir: lame --quiet --nores in.wav out
MP3 of lame, free format: lame --quiet --freeformat -b 100 in.wav out
MP3 of sox: sox in.wav out.mp3
Vorbis of oggenc: oggenc --quiet -q 2 in.wav -o out
Vorbis of oggenc, tags: oggenc --quiet -q 8 -t title -a artist wide.wav -o out
Vorbis of sox: sox wide.wav out.ogg
Opus of opusenc: opusenc --quiet in.wav out
Opus of opusenc, small frames: opusenc --quiet --framesize 2.5 in.wav out
Opus of opusenc, large frames: opusenc --quiet --framesize 60 --speech --bitrate 12 in.wav out
Opus of opusenc, a picture: opusenc --quiet --picture in.jpg wide.wav out
Opus of opusenc, 6 channels: sox in.wav -c 6 a.wav; opusenc --quiet a.wav out
AMR of sox: sox in.wav -r 8000 out.amr-nb
AAC with an ID3 tag: ffmpeg -v error -i in.wav -c:a aac -write_id3v2 1 -metadata title=A out.aac
AAC of 8 kHz: ffmpeg -v error -i in.wav -ar 8000 -c:a aac out.m4a
M4A with a picture: ffmpeg -v error -i in.wav -i in.jpg -map 0 -map 1 -c:v copy -disposition:v attached_pic -c:a aac out.m4a
M4A, fast start: ffmpeg -v error -i wide.wav -c:a aac -movflags +faststart -metadata title=A out.m4a
M4A cut without encoding: ffmpeg -v error -i in.m4a -ss 0.3 -t 0.4 -c copy out.m4a
M4A of two sounds: ffmpeg -v error -i in.wav -i wide.wav -map 0 -map 1 -c:a aac out.m4a
MOV of PCM: ffmpeg -v error -i in.wav -c:a pcm_s16le out.mov
MOV of AAC: ffmpeg -v error -i in.wav -c:a aac out.mov
3GP of AAC: ffmpeg -v error -i in.wav -c:a aac out.3gp
3GP of AMR: sox in.wav -r 8000 a.amr-nb; ffmpeg -v error -f amr -i a.amr-nb -c copy out.3gp
MKA of mkvmerge, Opus: opusenc --quiet in.wav a.opus; mkvmerge -q -o out.mka a.opus
MKA of mkvmerge, AAC: mkvmerge -q -o out.mka in.m4a
MKA of mkvmerge, MP3: lame --quiet in.wav a.mp3; mkvmerge -q -o out.mka a.mp3
MKA of mkvmerge, FLAC: flac --silent in.wav -o a.flac; mkvmerge -q -o out.mka a.flac
MKA of mkvmerge, Vorbis: oggenc --quiet in.wav -o a.ogg; mkvmerge -q -o out.mka a.ogg
MKA of mkvmerge, PCM: mkvmerge -q -o out.mka in.wav
WebM of mkvmerge: opusenc --quiet in.wav a.opus; mkvmerge -q -w -o out.webm a.opus
live WebM of Opus: ffmpeg -v error -i in.wav -c:a libopus -f webm -live 1 - > out
WebM of Opus in a pipe: ffmpeg -v error -i in.wav -c:a libopus -f webm - | cat > out
Ogg of Opus in a pipe: ffmpeg -v error -i in.wav -c:a libopus -f ogg - | cat > out
MP4 in a pipe: ffmpeg -v error -i in.wav -c:a aac -movflags frag_keyframe+empty_moov+default_base_moof -f mp4 - | cat > out
MP2 of twolame: twolame --quiet in.wav out.mp2
WavPack of wavpack: wavpack -q in.wav -o out.wv
AU of sox: sox in.wav out.au
VOC of sox: sox in.wav out.voc
SPHERE of sox: sox in.wav -t sph out
"""

# in.mp4: two seconds of H.264 with B-frames and AAC, 128x96, a keyframe each half second.
VIDEOS = """
MP4, turned, older: ffmpeg -v error -i in.mp4 -c copy -metadata:s:v rotate=90 out.mp4
MP4, upside down: ffmpeg -v error -i in.mp4 -c copy -metadata:s:v rotate=180 out.mp4
MP4 with sound first: ffmpeg -v error -i in.mp4 -map 0:a -map 0:v -c copy out.mp4
MP4 cut without encoding: ffmpeg -v error -ss 0.7 -i in.mp4 -t 1 -c copy out.mp4
MP4 cut at a keyframe: ffmpeg -v error -ss 0.5 -i in.mp4 -t 1 -c copy out.mp4
MP4 cut, times kept: ffmpeg -v error -ss 0.7 -i in.mp4 -copyts -t 1 -c copy out.mp4
MP4 that begins late: ffmpeg -v error -itsoffset 0.5 -i in.mp4 -c copy out.mp4
MP4 of one frame: ffmpeg -v error -i in.mp4 -frames:v 1 -an out.mp4
MP4 of a second timebase: ffmpeg -v error -i in.mp4 -c copy -video_track_timescale 90000 out.mp4
MP4, 59.94 frames: ffmpeg -v error -i in.mp4 -r 60000/1001 -an out.mp4
MP4, other pixel aspect: ffmpeg -v error -i in.mp4 -vf setsar=4/3 -an out.mp4
MP4, interlaced: ffmpeg -v error -i in.mp4 -flags +ilme+ildct -x264opts interlaced=1 -an out.mp4
MP4, lossless: ffmpeg -v error -i in.mp4 -c:v libx264 -qp 0 -an out.mp4
MP4, lossless RGB: ffmpeg -v error -i in.mp4 -c:v libx264rgb -qp 0 -an out.mp4
MP4, grey: ffmpeg -v error -i in.mp4 -pix_fmt gray -c:v libx264 -an out.mp4
MP4, 4:2:2: ffmpeg -v error -i in.mp4 -pix_fmt yuv422p -an out.mp4
MP4, odd size: ffmpeg -v error -i in.mp4 -vf scale=127:95 -pix_fmt yuv444p -an out.mp4
MP4, cropped by the codec: ffmpeg -v error -i in.mp4 -vf scale=118:90 -an out.mp4
MP4, open groups: ffmpeg -v error -i in.mp4 -x264opts open-gop=1:keyint=8 -an out.mp4
MP4, refreshed in stripes: ffmpeg -v error -i in.mp4 -x264opts intra-refresh=1 -an out.mp4
MP4, baseline: ffmpeg -v error -i in.mp4 -profile:v baseline -pix_fmt yuv420p -an out.mp4
MP4, slices: ffmpeg -v error -i in.mp4 -x264opts slices=4 -an out.mp4
MP4 in fragments of DASH: ffmpeg -v error -i in.mp4 -c copy -movflags frag_keyframe+dash+default_base_moof out.mp4
MP4 in fragments, in a pipe: ffmpeg -v error -i in.mp4 -c copy -movflags frag_keyframe+empty_moov -f mp4 - | cat > out
MP4, fast start: ffmpeg -v error -i in.mp4 -c copy -movflags +faststart out.mp4
MP4, HEVC as phones name it: ffmpeg -v error -i in.mp4 -c:v libx265 -x265-params log-level=none -tag:v hvc1 out.mov
MP4, HEVC of 10 bits: ffmpeg -v error -i in.mp4 -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le -an out.mp4
MP4, HEVC, BT.2020: ffmpeg -v error -i in.mp4 -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le -color_primaries bt2020 -colorspace bt2020nc -color_trc smpte2084 -an out.mp4
MOV with a time code: ffmpeg -v error -i in.mp4 -c copy -timecode 01:00:00:00 out.mov
MOV of H.264, uncompressed sound: ffmpeg -v error -i in.mp4 -c:v copy -c:a pcm_s16le out.mov
MOV of PNG: ffmpeg -v error -i in.mp4 -c:v png -an out.mov
M4V: ffmpeg -v error -i in.mp4 -c copy -f ipod out.m4v
3GP of H.263: ffmpeg -v error -i in.mp4 -s 176x144 -c:v h263 -an out.3gp
Matroska of mkvmerge: mkvmerge -q -o out.mkv in.mp4
Matroska with subtitles: printf '1\\n00:00:00,000 --> 00:00:01,000\\nhi\\n' > a.srt; mkvmerge -q -o out.mkv in.mp4 a.srt
Matroska with an attachment: mkvmerge -q --attach-file in.jpg -o out.mkv in.mp4
Matroska, split: mkvmerge -q --split duration:1s -o a.mkv in.mp4; cat a-002.mkv > out
Matroska in a pipe: ffmpeg -v error -i in.mp4 -c copy -f matroska - | cat > out
Matroska of HEVC: ffmpeg -v error -i in.mp4 -c:v libx265 -x265-params log-level=none out.mkv
Matroska of FFV1: ffmpeg -v error -i in.mp4 -c:v ffv1 -an out.mkv
WebM of VP8 with alpha: ffmpeg -v error -i in.mp4 -c:v libvpx -pix_fmt yuva420p -auto-alt-ref 0 -an out.webm
WebM of VP9 with alpha: ffmpeg -v error -i in.mp4 -c:v libvpx-vp9 -pix_fmt yuva420p -an out.webm
WebM of VP9, 4:4:4: ffmpeg -v error -i in.mp4 -c:v libvpx-vp9 -pix_fmt yuv444p -an out.webm
WebM of VP9, 10 bits: ffmpeg -v error -i in.mp4 -c:v libvpx-vp9 -pix_fmt yuv420p10le -an out.webm
WebM of VP8 and Opus, live: ffmpeg -v error -i in.mp4 -c:v libvpx -c:a libopus -f webm -live 1 - | cat > out
WebM of VP9 and Opus: ffmpeg -v error -i in.mp4 -c:v libvpx-vp9 -c:a libopus out.webm
WebM of VP9, two layers: ffmpeg -v error -i in.mp4 -c:v libvpx-vp9 -lag-in-frames 16 -auto-alt-ref 1 -an out.webm
WebM of AV1, with grain: ffmpeg -v error -i in.mp4 -c:v libaom-av1 -cpu-used 8 -denoise-noise-level 30 -an out.webm
animated WebP of gif2webp: ffmpeg -v error -i in.mp4 a.gif; gif2webp -quiet a.gif -o out.webp
animated WebP of img2webp: convert in.png -rotate 180 b.png; img2webp -d 80 in.png b.png -o out.webp 2> /dev/null
GIF of ImageMagick: convert -delay 10 in.png ( in.png -rotate 180 ) -loop 0 out.gif
GIF, only what changes: convert -delay 10 in.png ( in.png -negate -region 40x40+5+5 ) -layers optimize out.gif
"""

PICTURES = """
JPEG of ImageMagick: convert in.png -quality 85 out.jpg
JPEG of ImageMagick, 4:2:0: convert in.png -sampling-factor 4:2:0 out.jpg
JPEG of ImageMagick, 4:1:1: convert in.png -sampling-factor 4x1 out.jpg
JPEG of CMYK and a profile: convert in.png -colorspace CMYK out.jpg
JPEG of a camera: cp in.jpg out.jpg; exiftool -q -overwrite_original -Orientation#=6 -Make=A -Model=B -GPSLatitude=1 out.jpg
TIFF, fax of lines: convert in.png -monochrome -compress Group4 a.tiff; tiffcp -c g3:1d a.tiff out
TIFF, fax of planes: convert in.png -monochrome -compress Group4 a.tiff; tiffcp -c g3:2d a.tiff out
TIFF, bits from the right: convert in.png -monochrome -compress Group4 a.tiff; tiffcp -f lsb2msb -c g4 a.tiff out
JPEG with a comment: cp in.jpg out.jpg; exiftool -q -overwrite_original -Comment=hello out.jpg
JPEG with XMP alone: cp in.jpg out.jpg; exiftool -q -overwrite_original -XMP-dc:Title=A out.jpg
JPEG of two pictures: exiftool -q -b -o out.jpg in.jpg; cat in.jpg >> out.jpg
PNG, interlaced: convert in.png -interlace PNG out.png
PNG of 16 bits: convert in.png -depth 16 -define png:bit-depth=16 out.png
PNG of 16 bits, grey and alpha: convert in.png -colorspace Gray -alpha set -channel A -evaluate multiply 0.5 -define png:color-type=4 -define png:bit-depth=16 out.png
PNG of 4 bits: convert in.png -colors 12 -define png:bit-depth=4 -define png:color-type=3 out.png
PNG, a colour is transparent: convert in.png -define png:color-type=2 -transparent black out.png
PNG with gamma: convert in.png -gamma 1.8 -set gamma 0.55 out.png
PNG turned by exiftool: cp in.png out.png; exiftool -q -overwrite_original -Orientation#=8 out.png
GIF of ImageMagick, interlaced: convert in.png -interlace GIF out.gif
GIF of 1987: convert in.png GIF87:out
BMP of ImageMagick: convert in.png BMP3:out
BMP of ImageMagick, alpha: convert in.png -alpha set -channel A -evaluate multiply 0.5 BMP:out
BMP of 16 bits: convert in.png -define bmp:subtype=RGB565 BMP:out
ICO of ImageMagick: convert in.png -define icon:auto-resize=64,32,16 out.ico
TIFF of ImageMagick: convert in.png -compress none out.tiff
TIFF of ImageMagick, 16 bits: convert in.png -depth 16 -compress zip out.tiff
TIFF of ImageMagick, JPEG: convert in.png -compress jpeg out.tiff
TIFF of ImageMagick, grey JPEG: convert in.png -colorspace Gray -compress jpeg out.tiff
TIFF of ImageMagick, fax: convert in.png -monochrome -compress Group4 out.tiff
TIFF of ImageMagick, big-endian: convert in.png -endian MSB -compress lzw out.tiff
TIFF of ImageMagick, floats: convert in.png -define quantum:format=floating-point -depth 32 out.tiff
TIFF of ImageMagick, CMYK: convert in.png -colorspace CMYK -compress lzw out.tiff
TIFF of ImageMagick, alpha: convert in.png -alpha set -channel A -evaluate multiply 0.5 -compress zip out.tiff
TIFF of ImageMagick, Lab: convert in.png -colorspace Lab -compress lzw out.tiff
TIFF of ImageMagick, planes: convert in.png -interlace plane -compress lzw out.tiff
TIFF of tiles: convert in.png a.tiff; tiffcp -t -w 64 -l 48 -c lzw a.tiff out
TIFF of tiles of JPEG: convert in.png a.tiff; tiffcp -t -w 64 -l 48 -c jpeg:90 a.tiff out
TIFF of tiles of JPEG, RGB: convert in.png a.tiff; tiffcp -t -w 64 -l 48 -c jpeg:r:90 a.tiff out
TIFF of strips of JPEG: convert in.png a.tiff; tiffcp -r 16 -c jpeg:90 a.tiff out
TIFF of one strip of JPEG: convert in.png a.tiff; tiffcp -r 1000 -c jpeg:50 a.tiff out
TIFF of planes: convert in.png a.tiff; tiffcp -p separate -c zip a.tiff out
TIFF, Deflate with a predictor: convert in.png a.tiff; tiffcp -c zip:2 a.tiff out
TIFF, big-endian of tiffcp: convert in.png a.tiff; tiffcp -B -c lzw a.tiff out
TIFF, LZW of 1988: convert in.png a.tiff; tiffcp -c none a.tiff out
TIFF, white is zero: convert in.png -colorspace Gray -negate a.tiff; tiffset -s 262 0 a.tiff; cat a.tiff > out
TIFF of few colours: convert in.png -colors 40 -type Palette -compress lzw out.tiff
TIFF of 4 bits: convert in.png -colorspace Gray -depth 4 -compress lzw out.tiff
TIFF turned by exiftool: convert in.png -compress lzw out.tiff; exiftool -q -overwrite_original -Orientation#=6 out.tiff
WebP of cwebp: cwebp -quiet in.png -o out
WebP of cwebp, lossless: cwebp -quiet -lossless in.png -o out
WebP of cwebp, sharp colours: cwebp -quiet -sharp_yuv -q 60 in.png -o out
WebP of cwebp with EXIF: exiftool -q -overwrite_original -Orientation#=6 in.jpg; cwebp -quiet -metadata all in.jpg -o out
HEIC of heif-enc: heif-enc -q 60 in.png -o out.heic
HEIC of heif-enc, with a small picture: heif-enc -q 60 --thumb 64 in.png -o out.heic
HEIC of heif-enc, lossless: heif-enc -L in.png -o out.heic
HEIC of heif-enc, 4:4:4: heif-enc -q 60 -p chroma=444 in.png -o out.heic
HEIC of heif-enc, alpha: convert in.png -alpha set -channel A -evaluate multiply 0.5 a.png; heif-enc a.png -o out.heic
HEIC of two pictures: heif-enc in.png in.png -o out.heic
AVIF of heif-enc: heif-enc -A -q 60 in.png -o out.avif
JPEG 2000 of ImageMagick: convert in.png -quality 50 out.jp2
PSD of ImageMagick: convert in.png out.psd
JPEG XL of cjxl: cjxl --quiet in.png out.jxl
"""


def run(command, folder):
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, timeout=120)
    return done.returncode == 0


def prepare(folder, scene):
    scene.save(folder / "in.png")
    scene.save(folder / "in.ppm")
    scene.save(folder / "in.jpg", quality=90)
    tone = "0.4*sin(2*PI*(200+300*t)*t)+0.02*random(0)"
    for name, sound in (("in.wav", tone), ("wide.wav", f"{tone}|0.3*sin(2*PI*330*t)")):
        run(f"ffmpeg -v error -f lavfi -i 'aevalsrc={sound}:duration=1:sample_rate=44100' {name}", folder)
    run("ffmpeg -v error -i in.wav -c:a aac in.m4a", folder)
    run("ffmpeg -v error -f lavfi -i testsrc=size=128x96:rate=16:duration=2 -f lavfi -i aevalsrc='0.3*sin(2*PI*330*t)':duration=2 -pix_fmt yuv420p "
        "-c:v libx264 -bf 3 -g 8 -c:a aac in.mp4", folder)


def files(scene, kind):
    table = {"audio": SOUNDS, "video": VIDEOS, "image": PICTURES}.get(kind, "")
    with tempfile.TemporaryDirectory(prefix="afterimage-other-tools-") as folder:
        prepared = pathlib.Path(folder, "prepared")
        prepared.mkdir()
        prepare(prepared, scene)
        for line in table.strip().splitlines():
            name, command = line.split(": ", 1)
            content = made(command.replace(" ( ", " '(' ").replace(" ) ", " ')' "), prepared, pathlib.Path(folder, "work"))
            if content:
                yield kind, name, content


def made(command, prepared, work):
    """What the line writes to out, or to out and a suffix."""
    run(f"rm -rf '{work}' && cp -r '{prepared}' '{work}'", prepared)
    if not run(command, work):
        return None
    written = [path for path in sorted(work.iterdir()) if path.name == "out" or path.name.startswith("out.")]
    last = max(written, key=lambda path: (path.name == "out", path.stat().st_mtime_ns), default=None)
    return last.read_bytes() if last else None
