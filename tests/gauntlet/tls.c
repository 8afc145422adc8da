// A library with thread-local variables that need room in the first block of each thread, and a program that is linked with it (PROGRAM).
#ifdef PROGRAM
#include <stdio.h>
extern char *held(void);
int main(void) { return printf("%d\n", held()[2999]) < 0; }
#else
static __thread __attribute__((tls_model("initial-exec"))) char all[3000] = {1};
char *held(void) { return all; }
#endif
