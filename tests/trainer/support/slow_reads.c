/* Makes reads as slow and as unreliable as those from storage behind a network.
 *
 *     cc -shared -fPIC -o slow_reads.so slow_reads.c -ldl
 *     LD_PRELOAD=./slow_reads.so SLOW_READ_MS=20 COMMAND
 *
 * SLOW_READ_MS          delay of each read in milliseconds (0)
 * SLOW_READ_FAIL_EVERY  every N-th read fails with EIO (0: none)
 * SLOW_READ_MATCH       part of the paths of the files to affect (.tfrecord)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*read_t)(int, void *, size_t);
typedef ssize_t (*pread_t)(int, void *, size_t, off64_t);

static read_t real_read;
static pread_t real_pread;
static long milliseconds, fail_every;
static const char *match = ".tfrecord";
static atomic_long reads;

__attribute__((constructor)) static void start(void) {
  const char *text;
  real_read = (read_t)dlsym(RTLD_NEXT, "read");
  real_pread = (pread_t)dlsym(RTLD_NEXT, "pread64");
  if ((text = getenv("SLOW_READ_MS"))) milliseconds = atol(text);
  if ((text = getenv("SLOW_READ_FAIL_EVERY"))) fail_every = atol(text);
  if ((text = getenv("SLOW_READ_MATCH"))) match = text;
}

static int is_meant(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strstr(path, match) != NULL;
}

/* Wait, and say whether the read is one of those that fail. */
static int fails(int file) {
  if (!is_meant(file)) return 0;
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (milliseconds && nanosleep(&left, &left) && errno == EINTR) {
  }
  long number = atomic_fetch_add(&reads, 1) + 1;
  if (!fail_every || number % fail_every) return 0;
  errno = EIO;
  return 1;
}

ssize_t read(int file, void *buffer, size_t size) {
  /* Other libraries may read before this one is set up. */
  if (!real_read) start();
  return fails(file) ? -1 : real_read(file, buffer, size);
}

ssize_t pread64(int file, void *buffer, size_t size, off64_t offset) {
  if (!real_pread) start();
  return fails(file) ? -1 : real_pread(file, buffer, size, offset);
}

ssize_t pread(int file, void *buffer, size_t size, off_t offset) {
  return pread64(file, buffer, size, offset);
}
