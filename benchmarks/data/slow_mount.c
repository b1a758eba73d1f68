/* Makes files as slow as those of a mount that caches data of remote storage on the node's disk.
 *
 *     cc -shared -fPIC -o slow_mount.so slow_mount.c -ldl -lpthread
 *     LD_PRELOAD=./slow_mount.so SLOW_MOUNT=blocks COMMAND
 *
 * SLOW_MOUNT            files: opening a file waits until all of it has arrived
 *                       blocks: a read waits for its blocks, and requests those after them
 * SLOW_MOUNT_MBPS       what the node gets from storage, in MB/s (1000)
 * SLOW_MOUNT_MS         time of a request to storage in milliseconds (20)
 * SLOW_MOUNT_AHEAD      blocks of 2 MB that are requested ahead (32)
 * SLOW_MOUNT_MATCH      part of the paths of the files to affect (.tfrecord)
 *
 * All requests share the node's bandwidth, and are served in their order. What has arrived is cached.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (2L << 20)
#define FILES 4096

struct cached {
  char path[512];
  long blocks;
  double *arrives; /* by block: when it arrives; 0 if it was not requested */
};

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_pread)(int, void *, size_t, off64_t);
static ssize_t (*real_read)(int, void *, size_t);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cached files[FILES];
static double link_is_free, per_byte = 1e-9, latency = 0.02;
static long ahead = 32;
static int whole = 1;
static const char *match = ".tfrecord";

__attribute__((constructor)) static void start(void) {
  const char *text;
  real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
  real_pread = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
  real_read = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
  if ((text = getenv("SLOW_MOUNT"))) whole = strcmp(text, "blocks") != 0;
  if ((text = getenv("SLOW_MOUNT_MBPS"))) per_byte = 1e-6 / atof(text);
  if ((text = getenv("SLOW_MOUNT_MS"))) latency = atof(text) / 1000;
  if ((text = getenv("SLOW_MOUNT_AHEAD"))) ahead = atol(text);
  if ((text = getenv("SLOW_MOUNT_MATCH"))) match = text;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void wait_until(double moment) {
  double left;
  while ((left = moment - now()) > 0) {
    struct timespec pause = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
    nanosleep(&pause, NULL);
  }
}

/* Call with the lock. */
static struct cached *find(const char *path, long size) {
  unsigned long hash = 5381;
  for (const char *c = path; *c; c++) hash = hash * 33 + (unsigned char)*c;
  for (unsigned long n = 0; n < FILES; n++) {
    struct cached *file = &files[(hash + n) % FILES];
    if (!file->path[0]) {
      snprintf(file->path, sizeof file->path, "%s", path);
      file->blocks = (size + BLOCK - 1) / BLOCK;
      file->arrives = calloc(file->blocks + 1, sizeof(double));
    }
    if (!strcmp(file->path, path)) return file;
  }
  fprintf(stderr, "slow_mount: more than %d files\n", FILES);
  abort();
}

/* Request blocks that were not requested before. Call with the lock. */
static void request(struct cached *file, long first, long end) {
  double begin = now();
  for (long block = first; block < end && block < file->blocks; block++) {
    if (file->arrives[block]) continue;
    if (link_is_free < begin) link_is_free = begin;
    link_is_free += BLOCK * per_byte;
    file->arrives[block] = link_is_free + latency;
  }
}

/* Wait until bytes of a file have arrived. */
static void await(const char *path, long size, long offset, long length) {
  double moment = 0;
  pthread_mutex_lock(&lock);
  struct cached *file = find(path, size);
  long first = offset / BLOCK, last = (offset + length - 1) / BLOCK;
  if (last >= file->blocks) last = file->blocks - 1;
  request(file, first, whole ? last + 1 : last + 1 + ahead);
  for (long block = first; block <= last; block++)
    if (file->arrives[block] > moment) moment = file->arrives[block];
  pthread_mutex_unlock(&lock);
  wait_until(moment);
}

static int named(int number, char *path, size_t room) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", number);
  ssize_t length = readlink(link, path, room - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strstr(path, match) != NULL;
}

static void before_read(int number, long offset, size_t length) {
  char path[512];
  struct stat status;
  if (whole || !length || !named(number, path, sizeof path) || fstat(number, &status)) return;
  await(path, status.st_size, offset, (long)length);
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  struct stat status;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  if (!real_open) start();
  int number = real_open(path, flags, mode);
  if (number >= 0 && whole && (flags & O_ACCMODE) == O_RDONLY && strstr(path, match)
      && !fstat(number, &status) && status.st_size)
    await(path, status.st_size, 0, status.st_size);
  return number;
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return open64(path, flags, mode);
}

ssize_t pread64(int number, void *buffer, size_t length, off64_t offset) {
  if (!real_pread) start();
  before_read(number, offset, length);
  return real_pread(number, buffer, length, offset);
}

ssize_t pread(int number, void *buffer, size_t length, off_t offset) {
  return pread64(number, buffer, length, offset);
}

ssize_t read(int number, void *buffer, size_t length) {
  if (!real_read) start();
  if (!whole && length > 4096) before_read(number, lseek(number, 0, SEEK_CUR), length);
  return real_read(number, buffer, length);
}
