/**
 * The service has found an inconsistency in itself: a defect of the program, which no disk, no client and no operator can cause.
 * Nothing is acknowledged or shown that depends on it. In a journal it ends the service with exit code 1.
 */
export class Defect extends Error {}
