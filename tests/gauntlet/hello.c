// A program that only says that it runs.
#include <stdio.h>
#include <unistd.h>
int main(void) { return printf("user %d runs\n", (int)geteuid()) < 0; }
