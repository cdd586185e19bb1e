/* The broker program as a stand-in for nvidia-cuda-mps-control: the commands the agent uses.
 *
 *   dure-broker mps-control -d      kernels of different processes overlap from now on
 *   dure-broker mps-control         commands from standard input: get_server_list,
 *                                   get_client_list SERVER, terminate_client SERVER PID, quit
 * Under the name nvidia-cuda-mps-control the first word is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"

static struct emu_answer answer;

static bool ask(int socket, struct emu_request request)
{
    memset(&answer, 0, sizeof answer);
    return emu_ask(socket, &request, &answer, NULL);
}

static void print_clients(void)
{
    for (uint32_t i = 0; i < answer.pids; i++)
        printf("%d\n", answer.pid[i]);
}

static bool run_command(int socket, const char *line)
{
    int server = 0;
    int pid = 0;
    if (!ask(socket, (struct emu_request){.kind = EMU_LIST}) || answer.value == 0)
        return false; /* no daemon */
    if (strncmp(line, "get_server_list", 15) == 0) {
        printf("%d\n", (int)answer.bytes);
    } else if (strncmp(line, "get_client_list", 15) == 0) {
        print_clients();
    } else if (strncmp(line, "get_default_active_thread_percentage", 36) == 0) {
        printf("100.0\n");
    } else if (sscanf(line, "terminate_client %d %d", &server, &pid) == 2) {
        if (!ask(socket, (struct emu_request){.kind = EMU_TERMINATE, .pid = pid}))
            return false;
        if (answer.result != 0)
            printf("Client %d not found\n", pid);
    } else if (strncmp(line, "quit", 4) == 0) {
        return ask(socket, (struct emu_request){.kind = EMU_SET_MPS, .value = 0});
    }
    fflush(stdout);
    return true;
}

int control_main(int argc, char **argv)
{
    bool daemon = false;
    for (int i = 1; i < argc; i++)
        daemon |= strcmp(argv[i], "-d") == 0;
    int socket = emu_connect(true);
    if (socket < 0) {
        fprintf(stderr, "Cannot find MPS control daemon process\n");
        return 1;
    }
    if (daemon)
        return ask(socket, (struct emu_request){.kind = EMU_SET_MPS, .value = 1}) ? 0 : 1;
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL)
        if (!run_command(socket, line)) {
            fprintf(stderr, "Cannot find MPS control daemon process\n");
            return 1;
        }
    return 0;
}
