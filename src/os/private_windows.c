#include "os/private_windows.h"

#include <aclapi.h>
#include <sddl.h>
#include <stdio.h>

struct user {
    TOKEN_USER token;
    uint8_t room[SECURITY_MAX_SID_SIZE];
};

static bool find_user(struct user *user)
{
    HANDLE token;
    DWORD length;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return false;
    BOOL found = GetTokenInformation(token, TokenUser, user, sizeof *user, &length);
    (void)CloseHandle(token);
    return found;
}

bool pccl_private_describe(SECURITY_ATTRIBUTES *attributes)
{
    struct user user;
    char *name, text[512];
    *attributes = (SECURITY_ATTRIBUTES){.nLength = sizeof *attributes};
    if (!find_user(&user) || !ConvertSidToStringSidA(user.token.User.Sid, &name))
        return false;
    /* owner; a protected list of one entry: all access, also to files that are created inside */
    (void)snprintf(text, sizeof text, "O:%sD:P(A;OICI;FA;;;%s)", name, name);
    (void)LocalFree(name);
    return ConvertStringSecurityDescriptorToSecurityDescriptorA(text, SDDL_REVISION_1,
                                                                &attributes->lpSecurityDescriptor, NULL);
}

static bool is_trusted(PSID sid, const struct user *user)
{
    return EqualSid(sid, user->token.User.Sid) || IsWellKnownSid(sid, WinLocalSystemSid) ||
           IsWellKnownSid(sid, WinBuiltinAdministratorsSid);
}

/* Returns true if the entry gives other users access. */
static bool admits_others(const ACE_HEADER *entry, const struct user *user)
{
    const ACCESS_MASK harmless = SYNCHRONIZE | READ_CONTROL | FILE_READ_ATTRIBUTES | FILE_READ_EA;
    if (entry->AceType == ACCESS_DENIED_ACE_TYPE || (entry->AceFlags & INHERIT_ONLY_ACE))
        return false;
    const ACCESS_ALLOWED_ACE *allowed = (const ACCESS_ALLOWED_ACE *)(const void *)entry;
    return entry->AceType != ACCESS_ALLOWED_ACE_TYPE ||
           ((allowed->Mask & ~harmless) != 0 && !is_trusted((PSID)(uintptr_t)&allowed->SidStart, user));
}

const char *pccl_private_fault(HANDLE file)
{
    static const char shared[] = "other users can read or write it, so its content is not secret: create a new one, or "
                                 "remove their access";
    struct user user;
    PSID owner;
    ACL *list;
    PSECURITY_DESCRIPTOR all;
    void *entry;
    const char *fault = NULL;
    if (!find_user(&user) ||
        GetSecurityInfo(file, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL,
                        &list, NULL, &all) != ERROR_SUCCESS)
        return "cannot determine who can access it";
    if (!is_trusted(owner, &user))
        fault = "it belongs to another user";
    else if (!list)
        fault = shared;
    for (DWORD i = 0; !fault && i < list->AceCount; i++)
        if (!GetAce(list, i, &entry) || admits_others(entry, &user))
            fault = shared;
    (void)LocalFree(all);
    return fault;
}
