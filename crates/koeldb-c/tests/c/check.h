/* Checks that name the line, for all programs. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

/* The last call has not failed. */
#define OK(error)                                                       \
  do {                                                                  \
    if ((error) != NULL) {                                              \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (error));      \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

/* The last call has failed with a text that contains this one. */
#define FAILED(error, text)                                             \
  do {                                                                  \
    CHECK((error) != NULL);                                             \
    if (strstr((error), (text)) == NULL) {                              \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (error));      \
      exit(1);                                                          \
    }                                                                   \
    rocksdb_free(error);                                                \
    (error) = NULL;                                                     \
  } while (0)
