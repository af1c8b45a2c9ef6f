/**
 * The service contradicts itself: a defect of the program, which no disk, no client and no operator can cause. Nothing that follows
 * from it is acknowledged or shown. In a journal it ends the service with exit code 1.
 */
export class Defect extends Error {}
