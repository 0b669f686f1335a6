/* The event log on other systems than Windows: none. See channel_api.h. */
#include "service/eventlog/channel_api.h"

const ea_channel_api *ea_channel_api_of_machine(void) {
    return NULL;
}
